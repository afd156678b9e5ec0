// A record with secrets that a daemon keeps in its own file: one capnp message, 0600, replaced as a
// whole. After a crash the file is either the old or the new one. Copies in memory are overwritten.
#pragma once

#include <capnp/serialize.h>
#include <string.h>

#include "common/base/file.h"
#include "common/memory/zeroize.h"

namespace talos {

// Returns nullptr if the file does not exist. Throws if the file is not a message of this kind, or
// has more than `most` bytes.
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
