/* A stand-in for libnvidia-ml.so.1. It does what the file named by TUITRAIN_NVML_SCENARIO says, and reads it again whenever it changes.
 *
 *   driver TEXT                            driver version
 *   count N                                number of cards (0 to 16)
 *   card N|* FIELD VALUE...                name, uuid, pci (text); memory_total memory_used memory_reserved utilization
 *                                          memory_utilization temperature power power_cap: one number, or one for each second, over and over
 *   process N compute|graphics PID BYTES|- a process on card N; "-" is "not available"
 *   error FUNCTION CODE [N]                what the function returns (0 heals it), for all cards or card N
 *   hang FUNCTION SECONDS [N]              how long each call of it takes
 *   missing FUNCTION                       not in the library at all: the builder leaves it out when it links
 *
 * Later lines win. Without the file the driver counts as not loaded. Power is in milliwatts, as NVML has it.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9 };
enum { MAX_CARDS = 16, MAX_VALUES = 3600, MAX_RULES = 256, MAX_PROCESSES = 256 };
enum { TOTAL, USED, RESERVED, UTILIZATION, MEMORY_UTILIZATION, TEMPERATURE, POWER, POWER_CAP, FIELDS };

static const char *const field_names[FIELDS] = {"memory_total", "memory_used", "memory_reserved", "utilization",
                                                "memory_utilization", "temperature", "power", "power_cap"};
static const unsigned long long field_defaults[FIELDS] = {80ULL << 30, 1ULL << 30, 512ULL << 20, 7, 3, 35, 90500, 700000};

struct series { int count; unsigned long long values[MAX_VALUES]; };
struct card { char name[96], uuid[96], pci[32]; struct series fields[FIELDS]; };
struct rule { char function[64]; int card, code; double hang; };
struct process { int card, graphics; unsigned pid; unsigned long long memory; };

static struct card cards[MAX_CARDS];
static struct rule rules[MAX_RULES];
static struct process processes[MAX_PROCESSES];
static int card_count, rule_count, process_count, loaded, initialized;
static char driver[80];
static struct stat loaded_stat;
static struct timespec loaded_at;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void set_defaults(void) {
    card_count = rule_count = process_count = 0;
    strcpy(driver, "570.86.15");
    for (int i = 0; i < MAX_CARDS; i++) {
        snprintf(cards[i].name, sizeof cards[i].name, "NVIDIA H100 80GB HBM3");
        snprintf(cards[i].uuid, sizeof cards[i].uuid, "GPU-%08x-1111-2222-3333-444444444444", i);
        snprintf(cards[i].pci, sizeof cards[i].pci, "00000000:%02X:00.0", 0x10 + i);
        for (int f = 0; f < FIELDS; f++) {
            cards[i].fields[f].count = 1;
            cards[i].fields[f].values[0] = field_defaults[f];
        }
    }
}

static void set_field(struct card *card, const char *field, const char *value) {
    if (!strcmp(field, "name")) snprintf(card->name, sizeof card->name, "%s", value);
    if (!strcmp(field, "uuid")) snprintf(card->uuid, sizeof card->uuid, "%s", value);
    if (!strcmp(field, "pci")) snprintf(card->pci, sizeof card->pci, "%s", value);
    for (int f = 0; f < FIELDS; f++) {
        if (strcmp(field, field_names[f])) continue;
        struct series *series = &card->fields[f];
        char *end;
        for (series->count = 0; series->count < MAX_VALUES; value = end) {
            unsigned long long number = strtoull(value, &end, 10);
            if (end == value) break;
            series->values[series->count++] = number;
        }
    }
}

static void add_rule(const char *function, int card, int code, double hang) {
    if (rule_count == MAX_RULES) return;
    struct rule *rule = &rules[rule_count++];
    snprintf(rule->function, sizeof rule->function, "%s", function);
    rule->card = card, rule->code = code, rule->hang = hang;
}

static void read_line(char *line) {
    char word[64], which[32], memory[32];
    int card = -1, code, at = 0;
    unsigned pid;
    double seconds;
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "driver %79s", driver) == 1) return;
    if (sscanf(line, "count %d", &card_count) == 1) return;
    if (sscanf(line, "card %31s %63s %n", which, word, &at) == 2 && at) {
        for (int i = 0; i < MAX_CARDS; i++)
            if (*which == '*' || atoi(which) == i) set_field(&cards[i], word, line + at);
    } else if (sscanf(line, "error %63s %d %d", word, &code, &card) >= 2) {
        add_rule(word, card, code, -1);
    } else if (sscanf(line, "hang %63s %lf %d", word, &seconds, &card) >= 2) {
        add_rule(word, card, -1, seconds);
    } else if (sscanf(line, "process %d %63s %u %31s", &card, word, &pid, memory) == 4 && process_count < MAX_PROCESSES) {
        unsigned long long bytes = *memory == '-' ? UINT64_MAX : strtoull(memory, NULL, 10);
        processes[process_count++] = (struct process){card, !strcmp(word, "graphics"), pid, bytes};
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

/* What every call does first: returns the scenario's code for it, after hanging as long as the scenario wants. */
static int enter(const char *function, int card, int needs_init) {
    double hang = 0;
    pthread_mutex_lock(&lock);
    int code = load() ? SUCCESS : DRIVER_NOT_LOADED, ruled = SUCCESS;
    if (!code && needs_init && !initialized) code = UNINITIALIZED;
    for (int i = 0; !code && i < rule_count; i++) {
        if (strcmp(rules[i].function, function) || (rules[i].card >= 0 && rules[i].card != card)) continue;
        if (rules[i].hang >= 0) hang = rules[i].hang;
        else ruled = rules[i].code;
    }
    if (!code) code = ruled;
    pthread_mutex_unlock(&lock);
    struct timespec pause = {(time_t)hang, (long)((hang - (time_t)hang) * 1e9)};
    if (hang > 0) nanosleep(&pause, NULL);
    return code;
}

static int index_of(const void *handle) { return (int)((uintptr_t)handle - 1); }

static unsigned long long value(const void *handle, int field) {
    const struct series *series = &cards[index_of(handle)].fields[field];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return series->count ? series->values[(now.tv_sec - loaded_at.tv_sec) % series->count] : 0;
}

static int text(char *target, unsigned size, const char *source) {
    if (strlen(source) >= size) return INSUFFICIENT_SIZE;
    strcpy(target, source);
    return SUCCESS;
}

#define ENTER(handle)                                        \
    do {                                                     \
        int code = enter(__func__, index_of(handle), 1);     \
        if (code) return code;                               \
    } while (0)

static int start(const char *function) {
    int code = enter(function, -1, 0);
    if (!code) initialized++;
    return code;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; return start("nvmlInitWithFlags"); }
int nvmlInit_v2(void) { return start("nvmlInit_v2"); }
int nvmlInit(void) { return start("nvmlInit"); }

int nvmlShutdown(void) {
    int code = enter(__func__, -1, 1);
    if (!code) initialized--;
    return code;
}

const char *nvmlErrorString(int code) { (void)code; return "an error of the stand-in"; }

int nvmlSystemGetDriverVersion(char *version, unsigned size) {
    int code = enter(__func__, -1, 1);
    return code ? code : text(version, size, driver);
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    int code = enter(__func__, -1, 1);
    if (!code) *count = (unsigned)card_count;
    return code;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    *handle = (void *)(uintptr_t)(index + 1);
    ENTER(*handle);
    return (int)index < card_count ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetName(void *handle, char *name, unsigned size) { ENTER(handle); return text(name, size, cards[index_of(handle)].name); }
int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned size) { ENTER(handle); return text(uuid, size, cards[index_of(handle)].uuid); }

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };

int nvmlDeviceGetPciInfo_v3(void *handle, struct pci *pci) {
    ENTER(handle);
    memset(pci, 0, sizeof *pci);
    return text(pci->bus_id, sizeof pci->bus_id, cards[index_of(handle)].pci);
}

struct memory { unsigned long long total, free, used; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };

int nvmlDeviceGetMemoryInfo(void *handle, struct memory *memory) {
    ENTER(handle);
    /* The old structure has no place for the reserve and counts it as used. */
    unsigned long long total = value(handle, TOTAL), used = value(handle, USED) + value(handle, RESERVED);
    *memory = (struct memory){total, total - used, used};
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(void *handle, struct memory_v2 *memory) {
    ENTER(handle);
    unsigned long long total = value(handle, TOTAL), used = value(handle, USED), reserved = value(handle, RESERVED);
    *memory = (struct memory_v2){memory->version, total, reserved, total - used - reserved, used};
    return SUCCESS;
}

struct utilization { unsigned gpu, memory; };

int nvmlDeviceGetUtilizationRates(void *handle, struct utilization *rates) {
    ENTER(handle);
    *rates = (struct utilization){(unsigned)value(handle, UTILIZATION), (unsigned)value(handle, MEMORY_UTILIZATION)};
    return SUCCESS;
}

struct temperature { unsigned version, sensor; int temperature; };

int nvmlDeviceGetTemperatureV(void *handle, struct temperature *answer) {
    ENTER(handle);
    answer->temperature = (int)value(handle, TEMPERATURE);
    return SUCCESS;
}

#define NUMBER(function, field)                         \
    int function(void *handle, unsigned *number) {      \
        ENTER(handle);                                  \
        *number = (unsigned)value(handle, field);       \
        return SUCCESS;                                 \
    }
NUMBER(nvmlDeviceGetPowerUsage, POWER)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, POWER_CAP)

int nvmlDeviceGetTemperature(void *handle, unsigned sensor, unsigned *temperature) {
    (void)sensor;
    ENTER(handle);
    *temperature = (unsigned)value(handle, TEMPERATURE);
    return SUCCESS;
}

struct listed { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; };

static int list(const void *handle, int graphics, unsigned *count, struct listed *target) {
    unsigned found = 0, room = target ? *count : 0;
    for (int i = 0; i < process_count; i++) {
        if (processes[i].card != index_of(handle) || processes[i].graphics != graphics) continue;
        if (found < room) target[found] = (struct listed){processes[i].pid, processes[i].memory, UINT32_MAX, UINT32_MAX};
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

#define PROCESSES(function, graphics)                                            \
    int function(void *handle, unsigned *count, struct listed *target) {         \
        ENTER(handle);                                                           \
        return list(handle, graphics, count, target);                            \
    }
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, 0)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, 0)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, 1)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, 1)
