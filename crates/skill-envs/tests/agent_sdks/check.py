"""The SDKs that agents are built on, as clients of the endpoint for agents.

Starts the example `agent_endpoint`, whose model repeats what it is told, and talks to it by the `openai` and
`anthropic` packages. Usage: check.py PROGRAM [ARGUMENT ...]
"""

import asyncio
import base64
import json
import subprocess
import sys
import unittest
from unittest import mock

import anthropic
import openai
from pydantic import BaseModel

PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
QUESTION = [{"role": "user", "content": "ping é"}]
ARGUMENTS = {"city": "Zürich", "days": 2}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
OPENAI_TOOLS = [
    {"type": "function", "function": {"name": name, "description": "Looks.", "parameters": SCHEMA}}
    for name in ("weather", "news")
]
RESPONSES_TOOLS = [{"type": "function", "strict": False, **tool["function"]} for tool in OPENAI_TOOLS]
ANTHROPIC_TOOLS = [
    {"name": name, "description": "Looks.", "input_schema": SCHEMA} for name in ("weather", "news")
]


class Colour(BaseModel):
    colour: str


class Server:
    """The example, and where it is."""

    program = None
    reached = None

    @classmethod
    def start(cls, command):
        cls.program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        cls.reached = json.loads(cls.program.stdout.readline())

    @classmethod
    def finish(cls):
        """Ends the example and gives what it saw."""
        report, _ = cls.program.communicate(timeout=60)
        return json.loads(report)

    @classmethod
    def openai(cls, kind=openai.OpenAI, token="token"):
        return kind(base_url=cls.reached["openai"], api_key=cls.reached.get(token, token))

    @classmethod
    def anthropic(cls, kind=anthropic.Anthropic, token="token"):
        return kind(base_url=cls.reached["anthropic"], api_key=cls.reached.get(token, token))


class OpenAi(unittest.TestCase):
    def setUp(self):
        self.client = Server.openai()
        self.addCleanup(self.client.close)

    def ask(self, **fields):
        return self.client.chat.completions.create(**{"model": "gpt-x", "messages": QUESTION, **fields})

    def test_a_reply(self):
        reply = self.ask(temperature=0.5, seed=3, user="someone")
        self.assertEqual(reply.choices[0].message.content, "re: ping é")
        self.assertEqual(reply.choices[0].finish_reason, "stop")
        self.assertEqual(reply.model, "gpt-x")
        self.assertGreater(reply.usage.prompt_tokens, 0)
        self.assertEqual(reply.usage.total_tokens, reply.usage.prompt_tokens + reply.usage.completion_tokens)
        self.assertEqual(reply.usage.completion_tokens_details.reasoning_tokens, 0)

    def test_a_reply_that_is_cut(self):
        self.assertEqual(self.ask(max_completion_tokens=1).choices[0].finish_reason, "length")

    def test_a_stream(self):
        messages = [{"role": "user", "content": "long " * 200}]
        chunks = list(self.ask(messages=messages, stream=True, stream_options={"include_usage": True}))
        texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
        self.assertEqual("".join(texts), "re: " + "long " * 200)
        self.assertGreater(len([text for text in texts if text]), 1)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual([chunk.usage is None for chunk in chunks[-2:]], [True, False])
        self.assertEqual(chunks[-2].choices[0].finish_reason, "stop")

    def test_a_stream_without_usage(self):
        self.assertTrue(all(chunk.usage is None and chunk.choices for chunk in self.ask(stream=True)))

    def test_tools_and_their_results(self):
        first = self.ask(tools=OPENAI_TOOLS, tool_choice="required", parallel_tool_calls=True).choices[0]
        self.assertEqual(first.finish_reason, "tool_calls")
        calls = first.message.tool_calls
        self.assertEqual([call.function.name for call in calls], ["weather", "news"])
        self.assertEqual(json.loads(calls[0].function.arguments), ARGUMENTS)
        results = [{"role": "tool", "tool_call_id": call.id, "content": f"{call.id} is fine"} for call in calls]
        messages = [*QUESTION, first.message, *results]
        second = self.ask(messages=messages, tools=OPENAI_TOOLS).choices[0]
        self.assertEqual(second.message.content, "It says: call_1 is fine")
        self.assertEqual(second.finish_reason, "stop")

    def test_tools_in_a_stream(self):
        manager = self.client.chat.completions.stream(model="gpt-x", messages=QUESTION, tools=OPENAI_TOOLS)
        with manager as stream:
            kinds = {event.type for event in stream}
            reply = stream.get_final_completion().choices[0]
        self.assertIn("tool_calls.function.arguments.done", kinds)
        self.assertEqual(reply.finish_reason, "tool_calls")
        self.assertEqual(reply.message.content, "Let me see.")
        arguments = [json.loads(call.function.arguments) for call in reply.message.tool_calls]
        self.assertEqual(arguments, [ARGUMENTS, ARGUMENTS])

    def test_images(self):
        parts = [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}", "detail": "low"}},
            {"type": "image_url", "image_url": {"url": "https://pictures.example/1.png"}},
        ]
        reply = self.ask(messages=[{"role": "user", "content": parts}])
        self.assertEqual(reply.choices[0].message.content, "I see 2.")

    def test_replies_by_a_schema(self):
        reply = self.client.chat.completions.parse(model="gpt-x", messages=QUESTION, response_format=Colour)
        self.assertEqual(reply.choices[0].message.parsed, Colour(colour="blue"))
        reply = self.ask(response_format={"type": "json_object"})
        self.assertEqual(json.loads(reply.choices[0].message.content), {"colour": "blue"})

    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["echo"])
        self.assertEqual(self.client.models.retrieve("gpt-x").id, "gpt-x")

    def test_errors(self):
        with self.assertRaises(openai.AuthenticationError) as raised:
            self.client.with_options(api_key="wrong").chat.completions.create(model="m", messages=QUESTION)
        self.assertEqual(raised.exception.code, "invalid_api_key")
        with self.assertRaises(openai.BadRequestError) as raised:
            self.ask(n=2)
        self.assertEqual(raised.exception.param, "n")
        with self.assertRaises(openai.NotFoundError):
            self.client.embeddings.create(model="m", input="x")

    def test_a_target_that_fails_is_final(self):
        with Server.openai(token="failing_token") as client, mock.patch.object(client, "_sleep_for_retry") as retry:
            with self.assertRaises(openai.BadRequestError) as raised:
                client.chat.completions.create(model="m", messages=QUESTION)
        retry.assert_not_called()
        self.assertEqual(raised.exception.code, "target_failed")
        self.assertIn("it is down", str(raised.exception))

    def test_asynchronous_calls_side_by_side(self):
        async def work():
            async with Server.openai(openai.AsyncOpenAI) as client:

                async def one(number):
                    messages = [{"role": "user", "content": f"openai {number}"}]
                    create = client.chat.completions.create
                    if number % 2:
                        return (await create(model="m", messages=messages)).choices[0].message.content
                    stream = await create(model="m", messages=messages, stream=True)
                    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

                return await asyncio.gather(*map(one, range(40)))

        self.assertEqual(asyncio.run(work()), [f"re: openai {number}" for number in range(40)])


class Responses(unittest.TestCase):
    def setUp(self):
        self.client = Server.openai()
        self.addCleanup(self.client.close)

    def ask(self, **fields):
        return self.client.responses.create(**{"model": "gpt-x", "input": "ping é", **fields})

    def test_a_reply(self):
        reply = self.ask(instructions="Be brief.", temperature=0.5, store=False)
        self.assertEqual((reply.output_text, reply.status, reply.model), ("re: ping é", "completed", "gpt-x"))
        self.assertEqual(reply.usage.total_tokens, reply.usage.input_tokens + reply.usage.output_tokens)

    def test_a_reply_that_is_cut(self):
        reply = self.ask(max_output_tokens=1)
        self.assertEqual((reply.status, reply.incomplete_details.reason), ("incomplete", "max_output_tokens"))

    def test_a_stream(self):
        with self.client.responses.stream(model="gpt-x", input="long " * 200) as stream:
            texts = [event.delta for event in stream if event.type == "response.output_text.delta"]
            reply = stream.get_final_response()
        self.assertGreater(len(texts), 1)
        self.assertEqual("".join(texts), "re: " + "long " * 200)
        self.assertEqual(reply.output_text, "".join(texts))
        events = list(self.ask(stream=True))
        self.assertEqual((events[0].type, events[-1].type), ("response.created", "response.completed"))
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))

    def test_tools_and_their_results(self):
        first = self.ask(tools=RESPONSES_TOOLS, tool_choice="required")
        calls = [item for item in first.output if item.type == "function_call"]
        self.assertEqual([call.name for call in calls], ["weather", "news"])
        self.assertEqual(json.loads(calls[0].arguments), ARGUMENTS)
        results = [
            {"type": "function_call_output", "call_id": call.call_id, "output": f"{call.call_id} is fine"}
            for call in calls
        ]
        second = self.ask(input=[*QUESTION, *first.output, *results], tools=RESPONSES_TOOLS)
        self.assertEqual(second.output_text, "It says: call_1 is fine")

    def test_tools_in_a_stream(self):
        with self.client.responses.stream(model="gpt-x", input=QUESTION, tools=RESPONSES_TOOLS) as stream:
            done = [event for event in stream if event.type == "response.function_call_arguments.done"]
            reply = stream.get_final_response()
        self.assertEqual([json.loads(event.arguments) for event in done], [ARGUMENTS, ARGUMENTS])
        self.assertEqual(reply.output_text, "Let me see.")

    def test_images_and_schemas(self):
        picture = {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}", "detail": "low"}
        parts = [{"type": "input_text", "text": "What is this?"}, picture]
        self.assertEqual(self.ask(input=[{"role": "user", "content": parts}]).output_text, "I see 1.")
        reply = self.client.responses.parse(model="gpt-x", input=QUESTION, text_format=Colour)
        self.assertEqual(reply.output_parsed, Colour(colour="blue"))

    def test_errors(self):
        with self.assertRaises(openai.BadRequestError) as raised:
            self.ask(previous_response_id="resp_0")
        self.assertEqual(raised.exception.param, "previous_response_id")


class Anthropic(unittest.TestCase):
    def setUp(self):
        self.client = Server.anthropic()
        self.addCleanup(self.client.close)

    def ask(self, **fields):
        return self.client.messages.create(
            **{"model": "claude-x", "max_tokens": 64, "messages": QUESTION, **fields}
        )

    def test_a_reply(self):
        fields = {"extra_body": {"temperature": 0.5}, "metadata": {"user_id": "someone"}}
        reply = self.ask(system="Be brief.", **fields)
        self.assertEqual([block.text for block in reply.content], ["re: ping é"])
        self.assertEqual((reply.stop_reason, reply.role, reply.model), ("end_turn", "assistant", "claude-x"))
        self.assertGreater(reply.usage.input_tokens, 0)

    def test_a_reply_that_is_cut(self):
        self.assertEqual(self.ask(max_tokens=1).stop_reason, "max_tokens")

    def test_a_stream(self):
        messages = [{"role": "user", "content": "long " * 200}]
        with self.client.messages.stream(model="claude-x", max_tokens=64, messages=messages) as stream:
            texts = list(stream.text_stream)
            reply = stream.get_final_message()
        self.assertGreater(len(texts), 1)
        self.assertEqual("".join(texts), "re: " + "long " * 200)
        self.assertEqual((reply.content[0].text, reply.stop_reason), ("".join(texts), "end_turn"))
        self.assertGreater(reply.usage.output_tokens, 0)
        names = [event.type for event in self.ask(stream=True)]
        self.assertEqual((names[0], names[-1]), ("message_start", "message_stop"))

    def test_tools_and_their_results(self):
        first = self.ask(tools=ANTHROPIC_TOOLS, tool_choice={"type": "any"})
        self.assertEqual(first.stop_reason, "tool_use")
        self.assertEqual(first.content[0].text, "Let me see.")
        calls = [block for block in first.content if block.type == "tool_use"]
        self.assertEqual([(call.name, call.input) for call in calls], [("weather", ARGUMENTS), ("news", ARGUMENTS)])
        results = [
            {"type": "tool_result", "tool_use_id": calls[0].id, "content": [{"type": "text", "text": "sun"}]},
            {"type": "tool_result", "tool_use_id": calls[1].id, "content": "none", "is_error": True},
        ]
        messages = [
            *QUESTION,
            {"role": "assistant", "content": first.content},
            {"role": "user", "content": results},
        ]
        second = self.ask(messages=messages, tools=ANTHROPIC_TOOLS)
        self.assertEqual(second.content[0].text, "It says: The tool failed: none")

    def test_tools_in_a_stream(self):
        manager = self.client.messages.stream(
            model="claude-x", max_tokens=64, messages=QUESTION, tools=ANTHROPIC_TOOLS
        )
        with manager as stream:
            pieces = [event.partial_json for event in stream if event.type == "input_json"]
            reply = stream.get_final_message()
        self.assertEqual(len(pieces), 2)
        inputs = [block.input for block in reply.content if block.type == "tool_use"]
        self.assertEqual((inputs, reply.stop_reason), ([ARGUMENTS, ARGUMENTS], "tool_use"))

    def test_images(self):
        source = {"type": "base64", "media_type": "image/png", "data": PICTURE}
        parts = [{"type": "image", "source": source}, {"type": "text", "text": "What is this?"}]
        reply = self.ask(messages=[{"role": "user", "content": parts}])
        self.assertEqual(reply.content[0].text, "I see 1.")

    def test_counting_and_models(self):
        counted = self.client.messages.count_tokens(model="claude-x", messages=QUESTION, tools=ANTHROPIC_TOOLS)
        self.assertGreater(counted.input_tokens, 0)
        self.assertEqual([model.id for model in self.client.models.list()], ["echo"])

    def test_errors(self):
        with Server.anthropic(token="wrong") as client, self.assertRaises(anthropic.AuthenticationError) as raised:
            client.messages.create(model="m", max_tokens=1, messages=QUESTION)
        self.assertEqual(raised.exception.body["error"]["type"], "authentication_error")
        with self.assertRaises(anthropic.BadRequestError) as raised:
            self.ask(extra_body={"top_k": 5})
        self.assertIn("`top_k`", str(raised.exception))

    def test_a_target_that_fails_is_final(self):
        with Server.anthropic(token="failing_token") as client, mock.patch.object(client, "_sleep_for_retry") as retry:
            with self.assertRaises(anthropic.BadRequestError) as raised:
                client.messages.create(model="m", max_tokens=1, messages=QUESTION)
        retry.assert_not_called()
        self.assertIn("it is down", str(raised.exception))

    def test_asynchronous_calls_side_by_side(self):
        async def work():
            async with Server.anthropic(anthropic.AsyncAnthropic) as client:

                async def one(number):
                    fields = {"messages": [{"role": "user", "content": f"anthropic {number}"}]}
                    fields.update(model="m", max_tokens=9)
                    if number % 2:
                        return (await client.messages.create(**fields)).content[0].text
                    async with client.messages.stream(**fields) as stream:
                        return await stream.get_final_text()

                return await asyncio.gather(*map(one, range(40)))

        self.assertEqual(asyncio.run(work()), [f"re: anthropic {number}" for number in range(40)])


def check_report(report):
    """What the endpoint saw: the skill in every request, and conversations as they were."""
    systems = {request["messages"][0]["content"][0]["text"] for request in report["requests"]}
    assert systems == {"Always be kind.", "Be brief.\n\nAlways be kind."}, systems
    assert report["n_calls"] == len(report["requests"]) > 80, report["n_calls"]
    tools = [turns for turns in report["conversations"] if len(turns) > 3]
    roles = [[turn["role"] for turn in turns] for turns in tools]
    expected = ["system", "user", "assistant", "tool", "tool", "assistant"]
    assert roles == [expected] * 3, roles
    assert "it is down" in report["failure"], report["failure"]


def main():
    Server.start(sys.argv[1:])
    try:
        result = unittest.TextTestRunner(verbosity=2).run(
            unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
        )
    finally:
        report = Server.finish()
    if result.wasSuccessful():
        check_report(report)
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main()
