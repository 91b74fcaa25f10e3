"""A world that is stepped through: find a number in as few guesses as there are."""
import random

from skillrl_env import serve

GUESSES = 7


class Guess:
    def start(self, settings):
        self.highest = settings.get("highest", 100)
        self.guesses = settings.get("guesses", GUESSES)

    def reset(self, item, seed):
        self.secret = random.Random(seed).randint(1, self.highest)
        self.left = item["data"].get("guesses", self.guesses)
        return {"observation": f"I think of a number from 1 to {self.highest}. You have {self.left} guesses."}

    def step(self, action):
        word, _, number = action.strip().partition(" ")
        if word != "guess" or not number.isdigit():
            return {"observation": "Say `guess N`.", "understood": False}
        self.left -= 1
        if int(number) == self.secret:
            return {"observation": "That is it.", "reward": 1.0, "done": True, "won": True}
        hint = "higher" if int(number) < self.secret else "lower"
        return {"observation": f"It is {hint}. {self.left} left.", "done": self.left == 0}


def items(split, count):
    return [{"id": f"{split}-{number}", "task_type": "guess", "data": {}} for number in range(count)]


serve(
    Guess(),
    name="guess",
    instructions="Say `guess N` with a whole number. The answer is whether the number that is sought is higher or lower.",
    items={"train": items("train", 20), "val": items("val", 10), "test": items("test", 30)},
)
