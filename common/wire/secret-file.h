// A record with secrets that a daemon keeps as a file of its own: one capnp message, 0600, replaced
// as a whole. A crash leaves the file of before or the new one. What passed through memory is
// overwritten.
#pragma once

#include <capnp/serialize.h>
#include <string.h>

#include "common/base/file.h"
#include "common/memory/zeroize.h"

namespace talos {

// None: there is no such file. An exception for one that is no message of this kind, or has more
// than `most` bytes.
template <typename Spec>
kj::Maybe<kj::Own<SecretMessage>> readSecretFile(kj::StringPtr file, size_t most) {
  KJ_IF_MAYBE (text, tryReadFile(file, most)) {
    KJ_DEFER(zeroize(text->asArray()));
    auto words = kj::heapArray<capnp::word>(text->size() / sizeof(capnp::word));
    KJ_DEFER(zeroize(words.asBytes()));
    if (words.size() > 0) memcpy(words.begin(), text->begin(), words.asBytes().size());
    capnp::FlatArrayMessageReader reader(words);
    auto message = kj::heap<SecretMessage>();
    message->setRoot(reader.getRoot<Spec>());
    return kj::mv(message);
  }
  return nullptr;
}

inline void writeSecretFile(kj::StringPtr file, SecretMessage& message) {
  auto words = capnp::messageToFlatArray(message);
  KJ_DEFER(zeroize(words.asBytes()));
  writeFileAtomically(file, words.asChars(), 0600);
}

}  // namespace talos
