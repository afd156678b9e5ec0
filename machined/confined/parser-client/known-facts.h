// The facts that a platform states about this machine, read and checked: every text is one
// printable line, every outside address is valid. Shared and immutable; passed by value.
#pragma once

#include <capnp/message.h>

#include <memory>

#include "rpc/platform.capnp.h"

namespace talos::machined {

class KnownFacts {
 public:
  KnownFacts() = default;
  explicit KnownFacts(rpc::PlatformFacts::Reader facts)
      : message(std::make_shared<capnp::MallocMessageBuilder>()) {
    message->setRoot(facts);
  }

  bool exist() const { return message != nullptr; }
  // Returns empty facts if there are no facts.
  rpc::PlatformFacts::Reader get() const {
    if (message == nullptr) return {};
    return message->getRoot<rpc::PlatformFacts>().asReader();
  }

 private:
  std::shared_ptr<capnp::MallocMessageBuilder> message;
};

}  // namespace talos::machined
