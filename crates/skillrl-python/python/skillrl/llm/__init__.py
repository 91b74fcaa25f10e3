"""Clients: what answers as the target and as the optimizer."""

from skillrl.llm.base import BaseLLMClient
from skillrl.llm.openai_client import ChatClient, OpenAIChatClient

__all__ = ["BaseLLMClient", "ChatClient", "OpenAIChatClient"]
