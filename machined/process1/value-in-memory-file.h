// A value that outlives the brain: a Cap'n Proto struct that process 1 holds under a name.
//
// It is a sealed memory file that begins with this encoding's version, the type, the size, and a
// checksum over all of it and the name. The file is replaced whole: a brain that crashes before
// process 1 has the new file leaves the old one, and never a part of either. A successor finds the
// last held value, or nothing. An invalid file counts as nothing: one that is truncated or damaged,
// of another type or name, or of a version that wrote it differently. The value ends with the boot.
//
// Values may hold secrets: the written message and the read copy are zeroed.
#pragma once

#include <capnp/schema.h>
#include <capnp/serialize.h>
#include <kj/function.h>

#include "common/memory/zeroize.h"
#include "machined/process1/process1.h"

namespace talos::machined {

constexpr size_t kMostHeldBytes = 16u << 20;

// A message as it is held. Zeroed at its end.
struct HeldMessage {
  kj::Array<capnp::word> words;
  explicit HeldMessage(kj::Array<capnp::word> words) : words(kj::mv(words)) {}
  HeldMessage(HeldMessage&&) = default;
  ~HeldMessage() noexcept(false) { zeroize(words.asChars()); }
};
kj::Maybe<HeldMessage> takeHeldMessage(Process1& process1, kj::StringPtr name, uint64_t type);
kj::Promise<void> holdMessage(Process1& process1, kj::StringPtr name, uint64_t type,
                              capnp::MessageBuilder& message);

template <typename T>
class Held {
 public:
  Held(Process1& process1, kj::StringPtr name) : process1(process1), name(kj::str(name)) {}

  // Returns the result of `read` for the predecessor's value; only the first call of a brain finds
  // it.
  template <typename F>
  auto take(F&& read) -> kj::Maybe<decltype(read(kj::instance<typename T::Reader>()))> {
    kj::Maybe<decltype(read(kj::instance<typename T::Reader>()))> result;
    KJ_IF_MAYBE (found, takeHeldMessage(process1, name, capnp::typeId<T>())) {
      capnp::ReaderOptions options;
      options.traversalLimitInWords =
          kj::maxValue;  // only a brain of this node can have written it
      // An unreadable file is of another version: nothing was held.
      (void)kj::runCatchingExceptions([&]() {
        capnp::FlatArrayMessageReader reader(found->words, options);
        result = read(reader.getRoot<T>());
      });
    }
    return result;
  }

  // Resolves when process 1 has the value, in place of an earlier one. ResourceExhausted, without a
  // change, if it is larger than kMostHeldBytes.
  kj::Promise<void> hold(kj::FunctionParam<void(typename T::Builder)> fill) {
    SecretMessage message;
    fill(message.initRoot<T>());
    return holdMessage(process1, name, capnp::typeId<T>(), message);
  }
  kj::Promise<void> drop() { return process1.drop(name); }

 private:
  Process1& process1;
  kj::String name;
};

}  // namespace talos::machined
