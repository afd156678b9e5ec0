// A Cap'n Proto struct in a file that only machined writes (rpc/effects.capnp). The file is
// replaced as a whole; only root may read it.
#pragma once

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <string.h>

#include "common/base/file.h"

namespace talos::machined {

// Calls `f` with the struct; not if the file does not exist.
template <typename T, typename F>
void readNotes(kj::StringPtr path, F&& f) {
  KJ_IF_MAYBE (content, tryReadFile(path)) {
    auto words = kj::heapArray<capnp::word>(content->size() / sizeof(capnp::word));
    memcpy(words.begin(), content->begin(), words.asBytes().size());
    capnp::FlatArrayMessageReader reader(words);
    f(reader.getRoot<T>());
  }
}

template <typename T, typename F>
void writeNotes(kj::StringPtr path, F&& fill) {
  capnp::MallocMessageBuilder message;
  fill(message.initRoot<T>());
  auto words = capnp::messageToFlatArray(message);
  writeFileAtomically(path, words.asChars(), 0600);
}

}  // namespace talos::machined
