// The list of STATE's keys in META, in memory; calls can be made to fail.
#pragma once

#include <string>

#include "common/base/error.h"
#include "machined/disk/encryption/state-keys-in-meta.h"

namespace talos::machined {

struct ModelStateKeys final : public StateKeys {
  kj::Maybe<std::string> text;
  unsigned writes = 0;
  bool absent = false;             // META
  std::function<void()> onChange;  // called before a write; may throw

  kj::Promise<kj::Maybe<kj::Array<kj::byte>>> read() override {
    if (absent) co_return nullptr;
    co_return text.map([](const std::string& t) {
      return kj::heapArray<kj::byte>(kj::StringPtr(t.c_str(), t.size()).asBytes());
    });
  }
  kj::Promise<void> store(kj::Array<kj::byte> wanted) override {
    if (absent) fail(ErrorKind::kFailedPrecondition, "this node has no partition META");
    std::string next(reinterpret_cast<const char*>(wanted.begin()), wanted.size());
    if (text.orDefault("") == next) co_return;
    if (onChange) onChange();
    text = next;
    ++writes;
    co_return;
  }
  kj::Promise<void> remove() override {
    if (absent) fail(ErrorKind::kFailedPrecondition, "this node has no partition META");
    if (text == nullptr) co_return;
    if (onChange) onChange();
    text = nullptr;
    ++writes;
    co_return;
  }
};

}  // namespace talos::machined
