/* A stand-in for libnvidia-ml.so.1. It does what the file named by TUITRAIN_NVML_SCENARIO says, and reads it again whenever it changes.
 *
 *   driver TEXT                            driver version
 *   cuda NUMBER                            newest CUDA the driver speaks, 1000 * major + 10 * minor
 *   count N                                number of cards (0 to 16)
 *   card N|* FIELD VALUE...                name, uuid, pci (text), or a field of the table below: one number, or one for each second, over
 *                                          and over, or "-", which is "not supported"
 *   instance N K FIELD VALUE...            the same for MIG instance K (0 to 6) of card N, which the first such line makes
 *   process N[.K] compute|graphics|mps PID BYTES|-
 *                                          a process on card N, or on its instance K; "-" is "not available"
 *   held FOLDER                            more processes that compute: a file for each, named by its number, has a line with card and bytes for
 *                                          each card. They count as used; those that are gone do not
 *   share N PID PERCENT [SECONDS]          how much of card N's time that process took, as sampled SECONDS ago (0 if not said)
 *   error FUNCTION CODE [N[.K]]            what the function returns (0 heals it): for all, for card N with its instances, for one instance.
 *                                          "field-ID" is one answer of nvmlDeviceGetFieldValues
 *   hang FUNCTION SECONDS [N[.K]]          how long each call of it takes
 *   missing FUNCTION                       not in the library at all: the builder leaves it out when it links
 *
 * Later lines win. Without the file the driver counts as not loaded. Units are NVML's: power is mW, energy mJ, nvlink_* KiB.
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9 };
enum { MAX_CARDS = 16, MAX_INSTANCES = 7, MAX_VALUES = 1 << 18, MAX_RULES = 512, MAX_PROCESSES = 256, MAX_SHARES = 256 };

/* Name, and value where the scenario says nothing. */
#define TABLE(F)                                                                                                               \
    F(memory_total, 80ULL << 30) F(memory_used, 1ULL << 30) F(memory_reserved, 512ULL << 20) F(bar1_total, 0)               \
    F(utilization, 7) F(memory_utilization, 3) F(temperature, 35) F(power, 90500) F(power_cap, 700000) F(energy, 123456789)    \
    F(fan, 30) F(performance_state, 0) F(persistence, 1) F(display, 0) F(compute_mode, 0) F(ecc, 1) F(ecc_errors, 0)           \
    F(mig, 0) F(virtualization, 0) F(clock_graphics, 1755) F(clock_sm, 1755) F(clock_memory, 2619)                             \
    F(clock_graphics_max, 1980) F(clock_memory_max, 2619) F(throttle, 0) F(pcie_generation, 5) F(pcie_generation_max, 5)       \
    F(pcie_width, 16) F(pcie_width_max, 16) F(pcie_sent, 1000000) F(pcie_received, 2000000) F(nvlink_lanes, 18)                \
    F(nvlink_sent, 1000) F(nvlink_received, 2000)

#define AS_NAME(name, value) #name,
#define AS_DEFAULT(name, value) value,
#define AS_NUMBER(name, value) name##_,
enum { TABLE(AS_NUMBER) FIELDS };
static const char *const field_names[FIELDS] = {TABLE(AS_NAME)};
static const unsigned long long field_defaults[FIELDS] = {TABLE(AS_DEFAULT)};

struct series { int count; const unsigned long long *values; };
struct device { char name[96], uuid[96], pci[32]; int there; struct series fields[FIELDS]; };
struct place { int card, instance; };
struct rule { char function[64]; struct place at; int code; double hang; };
struct process { struct place at; char kind; unsigned pid; unsigned long long memory; };
struct share { int card; unsigned pid, percent; double ago; };

static struct device cards[MAX_CARDS], instances[MAX_CARDS][MAX_INSTANCES];
static unsigned long long values[MAX_VALUES];
static struct rule rules[MAX_RULES];
static struct process processes[MAX_PROCESSES];
static struct share shares[MAX_SHARES];
static int card_count, rule_count, process_count, share_count, value_count, cuda, loaded, initialized;
static char driver[80], held[512];
static struct stat loaded_stat;
static struct timespec loaded_at;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void set_default_fields(struct device *device) {
    for (int f = 0; f < FIELDS; f++) device->fields[f] = (struct series){f != bar1_total_, &field_defaults[f]};
}

static void set_defaults(void) {
    card_count = rule_count = process_count = share_count = value_count = 0;
    strcpy(driver, "570.86.15");
    *held = 0;
    cuda = 12080;
    for (int i = 0; i < MAX_CARDS; i++) {
        snprintf(cards[i].name, sizeof cards[i].name, "NVIDIA H100 80GB HBM3");
        snprintf(cards[i].uuid, sizeof cards[i].uuid, "GPU-%08x-1111-2222-3333-444444444444", i);
        snprintf(cards[i].pci, sizeof cards[i].pci, "00000000:%02X:00.0", 0x10 + i);
        set_default_fields(&cards[i]);
        for (int k = 0; k < MAX_INSTANCES; k++) {
            struct device *instance = &instances[i][k];
            snprintf(instance->name, sizeof instance->name, "NVIDIA H100 80GB HBM3 MIG 1g.10gb");
            snprintf(instance->uuid, sizeof instance->uuid, "MIG-%08x-%04x-2222-3333-444444444444", i, k);
            strcpy(instance->pci, cards[i].pci);
            set_default_fields(instance);
            instance->there = 0;
        }
    }
}

static void set_field(struct device *device, const char *field, const char *value) {
    if (!strcmp(field, "name")) snprintf(device->name, sizeof device->name, "%s", value);
    if (!strcmp(field, "uuid")) snprintf(device->uuid, sizeof device->uuid, "%s", value);
    if (!strcmp(field, "pci")) snprintf(device->pci, sizeof device->pci, "%s", value);
    for (int f = 0; f < FIELDS; f++) {
        if (strcmp(field, field_names[f])) continue;
        struct series *series = &device->fields[f];
        char *end;
        for (*series = (struct series){0, &values[value_count]}; value_count < MAX_VALUES; value = end, series->count++) {
            unsigned long long number = strtoull(value, &end, 10);
            if (end == value) break;
            values[value_count++] = number;
        }
    }
}

/* "N" is card N with its instances, "N.K" one of them, nothing is everything. */
static struct place read_place(const char *text) {
    struct place at = {-1, -1};
    sscanf(text, "%d.%d", &at.card, &at.instance);
    return at;
}

static void add_rule(const char *function, const char *where, int code, double hang) {
    if (rule_count == MAX_RULES) return;
    struct rule *rule = &rules[rule_count++];
    snprintf(rule->function, sizeof rule->function, "%s", function);
    rule->at = read_place(where), rule->code = code, rule->hang = hang;
}

static void read_line(char *line) {
    char word[64], which[32], memory[32];
    int card, instance, code, at = 0;
    unsigned pid, percent;
    double seconds = 0;
    *which = 0;
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "driver %79s", driver) == 1 || sscanf(line, "cuda %d", &cuda) == 1 || sscanf(line, "count %d", &card_count) == 1) return;
    if (sscanf(line, "held %511[^\n]", held) == 1) return;
    if (sscanf(line, "card %31s %63s %n", which, word, &at) == 2 && at) {
        for (int i = 0; i < MAX_CARDS; i++)
            if (*which == '*' || atoi(which) == i) set_field(&cards[i], word, line + at);
    } else if (sscanf(line, "instance %d %d %63s %n", &card, &instance, word, &at) == 3 && at) {
        if (card < 0 || card >= MAX_CARDS || instance < 0 || instance >= MAX_INSTANCES) return;
        instances[card][instance].there = 1;
        set_field(&instances[card][instance], word, line + at);
    } else if (sscanf(line, "error %63s %d %31s", word, &code, which) >= 2) {
        add_rule(word, which, code, -1);
    } else if (sscanf(line, "hang %63s %lf %31s", word, &seconds, which) >= 2) {
        add_rule(word, which, -1, seconds);
    } else if (sscanf(line, "process %31s %63s %u %31s", which, word, &pid, memory) == 4 && process_count < MAX_PROCESSES) {
        unsigned long long bytes = *memory == '-' ? UINT64_MAX : strtoull(memory, NULL, 10);
        processes[process_count++] = (struct process){read_place(which), *word, pid, bytes};
    } else if (sscanf(line, "share %d %u %u %lf", &card, &pid, &percent, &seconds) >= 3 && share_count < MAX_SHARES) {
        shares[share_count++] = (struct share){card, pid, percent, seconds};
    }
}

/* Reads the scenario where it is new; returns whether there is one. */
static int load(void) {
    static char line[65536];
    const char *path = getenv("TUITRAIN_NVML_SCENARIO");
    struct stat now;
    if (!path || stat(path, &now)) return 0;
    int same = loaded && now.st_ino == loaded_stat.st_ino && now.st_size == loaded_stat.st_size &&
               now.st_mtim.tv_sec == loaded_stat.st_mtim.tv_sec && now.st_mtim.tv_nsec == loaded_stat.st_mtim.tv_nsec;
    if (same) return 1;
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    set_defaults();
    while (fgets(line, sizeof line, file)) read_line(line);
    fclose(file);
    loaded = 1, loaded_stat = now;
    clock_gettime(CLOCK_MONOTONIC, &loaded_at);
    return 1;
}

/* A handle is a number: the card's place from 1, and above it the instance's place from 1. */
static void *handle_of(int card, int instance) { return (void *)(uintptr_t)(card + 1 + ((instance + 1) << 8)); }
static struct place place_of(const void *handle) {
    uintptr_t number = (uintptr_t)handle;
    return (struct place){(int)(number & 255) - 1, (int)(number >> 8) - 1};
}
static struct device *device_of(const void *handle) {
    struct place at = place_of(handle);
    return at.instance < 0 ? &cards[at.card] : &instances[at.card][at.instance];
}

/* The scenario's code for a call, and in `hang` how long it takes. The lock is held. */
static int ruled(const char *function, struct place at, double *hang) {
    int code = SUCCESS;
    for (int i = 0; i < rule_count; i++) {
        const struct rule *rule = &rules[i];
        if (strcmp(rule->function, function) || (rule->at.card >= 0 && rule->at.card != at.card)) continue;
        if (rule->at.instance >= 0 && rule->at.instance != at.instance) continue;
        if (rule->hang >= 0) *hang = rule->hang;
        else code = rule->code;
    }
    return code;
}

/* What every call does first: returns the scenario's code for it, after hanging as long as the scenario wants. */
static int enter(const char *function, const void *handle, int needs_init) {
    double hang = 0;
    struct place at = place_of(handle);
    pthread_mutex_lock(&lock);
    int code = load() ? SUCCESS : DRIVER_NOT_LOADED;
    if (!code && needs_init && !initialized) code = UNINITIALIZED;
    if (!code && handle && at.instance >= 0 && !instances[at.card][at.instance].there) code = INVALID_ARGUMENT;
    if (!code) code = ruled(function, at, &hang);
    pthread_mutex_unlock(&lock);
    struct timespec pause = {(time_t)hang, (long)((hang - (time_t)hang) * 1e9)};
    if (hang > 0) nanosleep(&pause, NULL);
    return code;
}

struct listed { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; };

/* The processes of the folder that hold something of a card: how many, and as many of them as there is room for. */
static unsigned read_held(int card, struct listed *target, unsigned room) {
    char path[1024];
    unsigned found = 0;
    DIR *folder = *held ? opendir(held) : NULL;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        int pid = atoi(entry->d_name), on;
        unsigned long long bytes;
        if (pid <= 0 || kill(pid, 0)) continue;
        snprintf(path, sizeof path, "%s/%s", held, entry->d_name);
        FILE *file = fopen(path, "r");
        while (file && fscanf(file, "%d %llu", &on, &bytes) == 2) {
            if (on != card) continue;
            if (found < room) target[found] = (struct listed){(unsigned)pid, bytes, UINT32_MAX, UINT32_MAX};
            found++;
        }
        if (file) fclose(file);
    }
    if (folder) closedir(folder);
    return found;
}

static unsigned long long bytes_held(const void *handle) {
    struct listed found[MAX_PROCESSES];
    struct place at = place_of(handle);
    unsigned count = at.instance < 0 ? read_held(at.card, found, MAX_PROCESSES) : 0;
    unsigned long long sum = 0;
    for (unsigned i = 0; i < count && i < MAX_PROCESSES; i++) sum += found[i].memory;
    return sum;
}

/* The value of this second; false where the scenario calls the field "not supported". */
static int value(const void *handle, int field, unsigned long long *number) {
    const struct series *series = &device_of(handle)->fields[field];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!series->count) return 0;
    *number = series->values[(now.tv_sec - loaded_at.tv_sec) % series->count];
    return 1;
}

static int text(char *target, unsigned size, const char *source) {
    if (strlen(source) >= size) return INSUFFICIENT_SIZE;
    strcpy(target, source);
    return SUCCESS;
}

#define ENTER(handle)                                \
    do {                                             \
        int code = enter(__func__, handle, 1);       \
        if (code) return code;                       \
    } while (0)

#define VALUE(handle, field, name)                                    \
    unsigned long long name;                                          \
    if (!value(handle, field, &name)) return NOT_SUPPORTED

static int start(const char *function) {
    int code = enter(function, NULL, 0);
    if (!code) initialized++;
    return code;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; return start("nvmlInitWithFlags"); }
int nvmlInit_v2(void) { return start("nvmlInit_v2"); }
int nvmlInit(void) { return start("nvmlInit"); }

int nvmlShutdown(void) {
    int code = enter(__func__, NULL, 1);
    if (!code) initialized--;
    return code;
}

const char *nvmlErrorString(int code) { (void)code; return "an error of the stand-in"; }

/* -- the machine -- */

int nvmlSystemGetDriverVersion(char *version, unsigned size) { ENTER(NULL); return text(version, size, driver); }
int nvmlSystemGetCudaDriverVersion(int *version) { ENTER(NULL); *version = cuda; return SUCCESS; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { ENTER(NULL); *version = cuda; return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *count) { ENTER(NULL); *count = (unsigned)card_count; return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    if (index >= MAX_CARDS) return INVALID_ARGUMENT;
    *handle = handle_of((int)index, -1);
    ENTER(*handle);
    return (int)index < card_count ? SUCCESS : INVALID_ARGUMENT;
}

static int handle_by(const char *uuid, const char *pci, void **handle) {
    for (int card = 0; card < card_count; card++) {
        if (uuid ? strcmp(cards[card].uuid, uuid) : strcmp(cards[card].pci, pci)) continue;
        *handle = handle_of(card, -1);
        return SUCCESS;
    }
    return NOT_FOUND;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) { ENTER(NULL); return handle_by(uuid, NULL, handle); }
int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **handle) { ENTER(NULL); return handle_by(NULL, pci, handle); }

/* -- which card it is -- */

int nvmlDeviceGetName(void *handle, char *name, unsigned size) { ENTER(handle); return text(name, size, device_of(handle)->name); }
int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned size) { ENTER(handle); return text(uuid, size, device_of(handle)->uuid); }

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };

int nvmlDeviceGetPciInfo_v3(void *handle, struct pci *pci) {
    ENTER(handle);
    memset(pci, 0, sizeof *pci);
    return text(pci->bus_id, sizeof pci->bus_id, device_of(handle)->pci);
}

/* -- numbers -- */

#define NUMBER(function, field)                                  \
    int function(void *handle, unsigned *number) {               \
        ENTER(handle);                                           \
        VALUE(handle, field, answer);                            \
        *number = (unsigned)answer;                              \
        return SUCCESS;                                          \
    }
NUMBER(nvmlDeviceGetPowerUsage, power_)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, power_cap_)
NUMBER(nvmlDeviceGetFanSpeed, fan_)
NUMBER(nvmlDeviceGetPerformanceState, performance_state_)
NUMBER(nvmlDeviceGetPersistenceMode, persistence_)
NUMBER(nvmlDeviceGetDisplayActive, display_)
NUMBER(nvmlDeviceGetComputeMode, compute_mode_)
NUMBER(nvmlDeviceGetVirtualizationMode, virtualization_)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, pcie_generation_)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, pcie_generation_max_)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, pcie_width_)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, pcie_width_max_)

#define LONG(function, field)                                    \
    int function(void *handle, unsigned long long *number) {     \
        ENTER(handle);                                           \
        VALUE(handle, field, answer);                            \
        *number = answer;                                        \
        return SUCCESS;                                          \
    }
LONG(nvmlDeviceGetTotalEnergyConsumption, energy_)
LONG(nvmlDeviceGetCurrentClocksEventReasons, throttle_)
LONG(nvmlDeviceGetCurrentClocksThrottleReasons, throttle_)

#define CURRENT_AND_PENDING(function, field)                                  \
    int function(void *handle, unsigned *current, unsigned *pending) {        \
        ENTER(handle);                                                        \
        VALUE(handle, field, answer);                                         \
        *current = *pending = (unsigned)answer;                               \
        return SUCCESS;                                                       \
    }
CURRENT_AND_PENDING(nvmlDeviceGetEccMode, ecc_)
CURRENT_AND_PENDING(nvmlDeviceGetMigMode, mig_)

int nvmlDeviceGetTotalEccErrors(void *handle, unsigned type, unsigned counter, unsigned long long *count) {
    ENTER(handle);
    VALUE(handle, ecc_errors_, errors);
    *count = type == 1 && counter == 0 ? errors : 0;
    return SUCCESS;
}

static int clock_of(const void *handle, unsigned type, const int *fields, unsigned *mhz) {
    if (type > 2) return NOT_SUPPORTED;
    VALUE(handle, fields[type], answer);
    *mhz = (unsigned)answer;
    return SUCCESS;
}

int nvmlDeviceGetClockInfo(void *handle, unsigned type, unsigned *mhz) {
    ENTER(handle);
    return clock_of(handle, type, (int[]){clock_graphics_, clock_sm_, clock_memory_}, mhz);
}

int nvmlDeviceGetMaxClockInfo(void *handle, unsigned type, unsigned *mhz) {
    ENTER(handle);
    return clock_of(handle, type, (int[]){clock_graphics_max_, clock_graphics_max_, clock_memory_max_}, mhz);
}

struct utilization { unsigned gpu, memory; };

int nvmlDeviceGetUtilizationRates(void *handle, struct utilization *rates) {
    ENTER(handle);
    VALUE(handle, utilization_, gpu);
    VALUE(handle, memory_utilization_, memory);
    unsigned long long mode;
    *rates = (struct utilization){(unsigned)gpu, (unsigned)memory};
    return place_of(handle).instance < 0 && !(value(handle, mig_, &mode) && mode == 1) ? SUCCESS : NOT_SUPPORTED;
}

struct temperature { unsigned version, sensor; int temperature; };

int nvmlDeviceGetTemperatureV(void *handle, struct temperature *answer) {
    ENTER(handle);
    VALUE(handle, temperature_, celsius);
    answer->temperature = (int)celsius;
    return SUCCESS;
}

int nvmlDeviceGetTemperature(void *handle, unsigned sensor, unsigned *temperature) {
    (void)sensor;
    ENTER(handle);
    VALUE(handle, temperature_, celsius);
    *temperature = (unsigned)celsius;
    return SUCCESS;
}

/* -- memory -- */

struct memory { unsigned long long total, free, used; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };

int nvmlDeviceGetMemoryInfo(void *handle, struct memory *memory) {
    ENTER(handle);
    VALUE(handle, memory_total_, total);
    VALUE(handle, memory_used_, used);
    VALUE(handle, memory_reserved_, reserved);
    used += bytes_held(handle);
    /* The old structure has no place for the reserve and counts it as used. */
    *memory = (struct memory){total, total - used - reserved, used + reserved};
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(void *handle, struct memory_v2 *memory) {
    ENTER(handle);
    VALUE(handle, memory_total_, total);
    VALUE(handle, memory_used_, used);
    VALUE(handle, memory_reserved_, reserved);
    used += bytes_held(handle);
    *memory = (struct memory_v2){memory->version, total, reserved, total - used - reserved, used};
    return SUCCESS;
}

int nvmlDeviceGetBAR1MemoryInfo(void *handle, struct memory *memory) {
    ENTER(handle);
    VALUE(handle, bar1_total_, total);
    *memory = (struct memory){total, total, 0};
    return SUCCESS;
}

/* -- traffic -- */

struct answer { unsigned field, scope; long long timestamp, latency; unsigned type; int code; unsigned long long value; };

int nvmlDeviceGetFieldValues(void *handle, int count, struct answer *answers) {
    static const struct { unsigned field; int value; } known[] = {
        {83, energy_}, {138, nvlink_sent_}, {139, nvlink_received_}, {197, pcie_sent_}, {198, pcie_received_},
    };
    ENTER(handle);
    for (int i = 0; i < count; i++) {
        char name[32];
        double hang = 0;
        struct answer *answer = &answers[i];
        answer->type = 3, answer->code = NOT_SUPPORTED, answer->value = 0;
        for (unsigned k = 0; k < sizeof known / sizeof *known; k++)
            if (known[k].field == answer->field && value(handle, known[k].value, &answer->value)) answer->code = SUCCESS;
        snprintf(name, sizeof name, "field-%u", answer->field);
        int code = ruled(name, place_of(handle), &hang);
        if (code) answer->code = code;
        /* Of NVLink, the sum over all links is asked for by this scope. */
        if ((answer->field == 138 || answer->field == 139) && answer->scope != UINT32_MAX) answer->code = INVALID_ARGUMENT;
    }
    return SUCCESS;
}

int nvmlDeviceGetNvLinkState(void *handle, unsigned link, unsigned *active) {
    ENTER(handle);
    VALUE(handle, nvlink_lanes_, lanes);
    *active = 1;
    return link < lanes ? SUCCESS : INVALID_ARGUMENT;
}

/* -- MIG -- */

int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count) {
    ENTER(handle);
    VALUE(handle, mig_, mode);
    *count = mode == 1 ? MAX_INSTANCES : 0;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **instance) {
    ENTER(handle);
    int card = place_of(handle).card;
    if (index >= MAX_INSTANCES) return INVALID_ARGUMENT;
    *instance = handle_of(card, (int)index);
    return instances[card][index].there ? SUCCESS : NOT_FOUND;
}

/* -- processes -- */

static int list(const void *handle, char kind, unsigned *count, struct listed *target) {
    unsigned found = 0, room = target ? *count : 0;
    struct place at = place_of(handle);
    for (int i = 0; i < process_count; i++) {
        const struct process *process = &processes[i];
        if (process->at.card != at.card || process->at.instance != at.instance || process->kind != kind) continue;
        if (found < room) target[found] = (struct listed){process->pid, process->memory, UINT32_MAX, UINT32_MAX};
        found++;
    }
    if (kind == 'c' && at.instance < 0) found += read_held(at.card, found < room ? target + found : NULL, found < room ? room - found : 0);
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

#define PROCESSES(function, kind)                                                \
    int function(void *handle, unsigned *count, struct listed *target) {         \
        ENTER(handle);                                                           \
        return list(handle, kind, count, target);                                \
    }
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, 'c')
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, 'c')
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, 'g')
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, 'g')
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, 'm')
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, 'm')

struct sample { unsigned pid; unsigned long long time; unsigned gpu, memory, encoder, decoder; };

int nvmlDeviceGetProcessUtilization(void *handle, struct sample *target, unsigned *count, unsigned long long since) {
    ENTER(handle);
    unsigned found = 0, room = target ? *count : 0;
    struct place at = place_of(handle);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at.instance >= 0) return NOT_SUPPORTED;
    for (int i = 0; i < share_count; i++) {
        unsigned long long time = (unsigned long long)((double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3 - shares[i].ago * 1e6);
        if (shares[i].card != at.card || time <= since) continue;
        if (found < room) target[found] = (struct sample){shares[i].pid, time, shares[i].percent, 0, 0, 0};
        found++;
    }
    *count = found;
    return !found ? NOT_FOUND : found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

/* -- what torch looks for when memory runs out, and does without -- */

#define NONE(name) int name(void) { return NOT_SUPPORTED; }

NONE(nvmlDeviceGetComputeRunningProcesses)
NONE(nvmlDeviceGetGpuFabricInfoV)
NONE(nvmlDeviceGetNvLinkRemoteDeviceType)
NONE(nvmlDeviceGetNvLinkRemotePciInfo_v2)
