// A machine config that a confined process has read: its bytes, and the view that code reads.
//
// The bytes are stored, compared and shown; machined/confined/parser made the view of them. The
// author of the document may have taken that process over, so the view may say anything that the
// schema can. It is a bounded copy in the brain's own memory. Code that depends on a rule that the
// schema does not express checks it again (as the tasks that write files and settings do).
#pragma once

#include <kj/memory.h>

#include "common/memory/zeroize.h"
#include "rpc/config.capnp.h"

namespace talos::machined {

class KnownConfig {
 public:
  // Copies both. Throws when the view cannot be copied.
  KnownConfig(kj::ArrayPtr<const char> source, config::Config::Reader view)
      : source(kj::heapArray(source)), message(kj::heap<SecretMessage>()) {
    message->setRoot(view);
    root = message->getRoot<config::Config>().asReader();
  }
  KnownConfig(KnownConfig&&) = default;
  KnownConfig& operator=(KnownConfig&&) = default;
  ~KnownConfig() noexcept(false) { zeroize(source); }

  config::Config::Reader get() const { return root; }
  kj::ArrayPtr<const char> bytes() const { return source; }

 private:
  kj::Array<char> source;
  kj::Own<SecretMessage> message;
  config::Config::Reader root;
};

}  // namespace talos::machined
