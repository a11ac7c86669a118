"""What the launcher holds: a configuration that is always valid, and beside it the texts that are not."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tuitrain import paths
from tuitrain.array_files import SUFFIX
from tuitrain.config import (
    BUILT_IN_WORDS,
    DATA,
    DEFAULTS,
    MODELS,
    RECIPES,
    ConfigError,
    RunConfig,
    choices,
    with_changes,
    written,
)
from tuitrain.device_names import short
from tuitrain.recipes import command_line, load_recipe, recipe_of, recipe_summary, recipe_text
from tuitrain.tui.launch.disk import Disk, Folder
from tuitrain.tui.launch.further import further_hint
from tuitrain.tui.launch.hints import CIFAR10_DOWNLOAD, Hint, Machine, Situation, hint
from tuitrain.tui.launch.own_recipes import OwnRecipe
from tuitrain.tui.launch.recipe_file import RecipeFile
from tuitrain.tui.launch.rows import FIELDS, FURTHER, GO_WITH, Field

TYPED_PATH = "a path…"
TYPED = "type it…"


class Form:
    """The launcher's values. `config` changes only to what passes the configuration's own checks; anything else stays a draft beside
    its error.
    """

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.rows: tuple[Field, ...] = FIELDS
        self.drafts: dict[str, str] = {}
        self.errors: dict[str, str] = {}
        self.cifar10_on_disk = paths.find_cifar10() is not None
        self.devices: tuple[str, ...] = ("cpu",)
        """What the device row offers beside auto."""
        self._folder: Folder | None = None
        self._first = config
        self._own: dict[str, OwnRecipe] = {}
        self._set_aside: dict[str, dict[str, str]] = {}
        """By a row of `GO_WITH`, or the recipe, what others had before a choice without them was made."""
        self._taken: OwnRecipe | None = None
        """The recipe of the person's own that was chosen."""
        self._as_taken = config
        """What the form held then."""

    def text(self, field: str) -> str:
        """What the row shows and an editor begins with."""
        if field in self.drafts:
            return self.drafts[field]
        if field == "recipe" and self._taken is not None:
            return self._taken.name
        value = getattr(self.config, field)
        return short(value) if field == "device" else written(value)

    def options(self, field: str) -> Sequence[str]:
        """The values that a row cycles through; empty for one that is typed."""
        if field == "recipe":
            first = () if self._first.recipe in RECIPES else (self._first.recipe,)
            return (*first, *RECIPES, *self._own)
        current = self.text(field)
        if field == "data":
            offered = self._offered_data()
            return (*offered, *(() if current in offered else (current,)), TYPED_PATH)
        if field == "device":
            offered = ("auto", *self.devices)
            return (*(() if current in offered else (current,)), *offered, TYPED)
        if field in BUILT_IN_WORDS:
            built_in = BUILT_IN_WORDS[field]
            return (*built_in, *(() if current in built_in else (current,)), TYPED)
        return ("false", "true") if isinstance(getattr(self.config, field), bool) else choices(field)

    def wanted(self, field: str) -> str:
        """What may be typed where a value is not chosen; nothing for a row of numbers or of a name."""
        if field == "data":
            return f"{', '.join(self._offered_data())} or a path (folder, {SUFFIX})"
        if field in BUILT_IN_WORDS:
            return "your own, as module:name"
        return "auto, auto:2, cpu, cuda:0, or several with commas" if field == "device" else ""

    def cycle(self, field: str, by: int) -> str:
        """The option `by` places on."""
        options = self.options(field)
        current = self.text(field)
        index = options.index(current) if current in options else -by
        return options[(index + by) % len(options)]

    def set_text(self, field: str, text: str) -> bool:
        """Take in what was typed or chosen; whether it is allowed. What is not stays as a draft beside its error."""
        if field == "recipe":
            return self._take_recipe(text)
        if field in GO_WITH:
            return self._take_choice(field, text)
        if field == "data" and text in DATA:
            # Only a folder has images of another size.
            return self._change(field, {field: text, "image_size": written(DEFAULTS.image_size)})
        return self._change(field, {field: text})

    def choose_devices(self, names: tuple[str, ...], strategy: str) -> bool:
        """Take devices from their list, `()` for auto, with a strategy that fits them; whether that is allowed."""
        return self._change("device", {"device": ",".join(names) or "auto", "strategy": strategy})

    def _offered_data(self) -> tuple[str, ...]:
        """What the built-in models cannot take is not offered."""
        images = tuple(data for data in DATA if data != "random")
        return ("random",) if self.config.model == "linear" else images if self.config.model in MODELS else DATA

    def _change(self, field: str, texts: dict[str, str]) -> bool:
        try:
            self.config = with_changes(self.config, texts, from_text=True)
        except ConfigError as error:
            self.drafts[field] = texts[field]
            self.errors[field] = str(error).removeprefix(f"{field}: ")
            return False
        for each in texts:
            self.drop_draft(each)
        return True

    def take(self, config: RunConfig) -> None:
        """Show another configuration."""
        self.config, self._taken = config, None
        self._set_aside = {}
        self.drafts.clear()
        self.errors.clear()

    def drop_draft(self, field: str) -> None:
        """Forget a text that is not allowed; the field has its last good value again."""
        self.drafts.pop(field, None)
        self.errors.pop(field, None)

    def refuse(self, sentence: str) -> None:
        """Put the reason why a start was refused beside its field, where it names one of the rows."""
        field, _, rest = sentence.partition(": ")
        known = rest and any(field == row.name for row in self.rows)
        self.errors[field if known else ""] = rest if known else sentence

    def accept(self) -> None:
        """Forget refusals: the person tries again."""
        self.errors = {field: error for field, error in self.errors.items() if field in self.drafts}

    @property
    def ready(self) -> bool:
        """Whether Enter may start."""
        return not self.drafts

    def seen(self, disk: Disk) -> None:
        """Take in what the disk says."""
        self.cifar10_on_disk = disk.cifar10
        self._folder = disk.folder
        self._own = {recipe.name: recipe for recipe in disk.recipes}
        shown = self.text("recipe")
        if shown in self._own and ("recipe" in self.drafts or self._was_edited(self._own[shown])):
            self._take_recipe(shown)

    def _was_edited(self, recipe: OwnRecipe) -> bool:
        """Whether the chosen recipe says something else by now, and the person has changed no row meanwhile."""
        return self._taken is not None and self._taken.config != recipe.config and self.config == self._as_taken

    @property
    def follows_file(self) -> bool:
        """Whether what is shown is that of a file, which may be edited meanwhile."""
        return self._taken is not None or "recipe" in self.drafts

    @property
    def recipe_file(self) -> RecipeFile | None:
        """The file of the chosen recipe, where that is one of the person's own."""
        return None if self._taken is None else self._taken.file

    @property
    def shows_further(self) -> bool:
        """Whether the further rows are there."""
        return self.rows is not FIELDS

    def toggle_further(self) -> None:
        """Have the further rows too, or no longer: then what is not allowed in them is forgotten."""
        if self.shows_further:
            for row in FURTHER:
                self.drop_draft(row.name)
        self.rows = FIELDS if self.shows_further else (*FIELDS, *FURTHER)

    def hint(self, field: str, machine: Machine, *, fetching: bool = False) -> Hint:
        """What stands beside a row that is right."""
        if any(field == row.name for row in FURTHER):
            return further_hint(field, self.config)
        return hint(field, self.config, Situation(machine, self.cifar10_on_disk, self._folder, fetching))

    def data_words(self) -> str:
        """The data that a start would take, and why."""
        data = self.config.data
        if data == "auto":
            return "CIFAR-10, from disk" if self.cifar10_on_disk else "the built-in synthetic data (CIFAR-10 is not on disk)"
        if data == "cifar10":
            return "CIFAR-10, from disk" if self.cifar10_on_disk else f"CIFAR-10 ({CIFAR10_DOWNLOAD})"
        return {"synthetic": "the built-in synthetic data", "random": "random data"}.get(data, data)

    @property
    def wants_cifar10(self) -> bool:
        """Whether CIFAR-10, once it is there, is what this form would train on."""
        return self.config.data in ("auto", "synthetic", "cifar10") and self.config.model != "linear"

    def command(self) -> str:
        """The equal command line."""
        return command_line(self.config)

    def summary(self) -> str:
        """What the recipe is, in one sentence."""
        name = self.config.recipe if self._taken is None else self._taken.name
        if name not in RECIPES:
            return f"{name}: a recipe of your own"
        # What the recipe says of its network and its data is not so of another one.
        if self.config.model == recipe_of(name).model:
            return recipe_summary(recipe_text(name))
        return f"{name} with {f'the network {self.config.model}' if self.config.model in MODELS else 'a model of your own'}"

    def _take_recipe(self, name: str) -> bool:
        """Another recipe brings its own values, and the one that the form began with those from then. The name is the person's, as are a
        device and data that are not the recipe's; data that one brings itself goes with it. Whether it is right.
        """
        own = self._own.get(name)
        if own is None:
            base = self._first if name == self._first.recipe else load_recipe(name)
        elif own.config is None:
            self.drafts["recipe"], self.errors["recipe"] = name, own.problem
            return False
        else:
            base = own.config
        before = self._before()
        device = self.config.device if self.config.device != before.device else base.device
        typed = self.config.name if self.config.name != before.name else ""
        brought = self.config.data == before.data != DEFAULTS.data
        chosen = self._set_aside.get("recipe", {}) if brought else {"data": self.config.data}
        data = chosen.get("data", base.data) if base.data == DEFAULTS.data else base.data
        self.take(msgspec.structs.replace(base, name=typed or base.name, device=device, data=data))
        self._taken, self._as_taken, self._set_aside["recipe"] = own, self.config, chosen
        return True

    def _take_choice(self, field: str, choice: str) -> bool:
        """What only some choices have goes with them, and comes back with them; whether it is right."""
        goes_with, without = GO_WITH[field]
        has, will_have = goes_with(getattr(self.config, field)), goes_with(choice)
        aside = {name: self.text(name) for name in without} if has and not will_have else self._set_aside.get(field, {})
        changes = {} if has and will_have else aside if will_have else without
        if not self._change(field, {field: choice, **changes}):
            return False
        self._set_aside[field] = aside
        return True

    def _before(self) -> RunConfig:
        """What the chosen recipe had brought."""
        if self._taken is not None and self._taken.config is not None:
            return self._taken.config
        return recipe_of(self.config.recipe)
