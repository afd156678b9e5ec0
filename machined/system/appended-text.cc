#include "machined/system/appended-text.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <string.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/memory/zeroize.h"
#include "rpc/effects.capnp.h"

namespace talos::machined {
namespace {

constexpr size_t kMostNotes = 64u << 20;

Block copyOf(kj::ArrayPtr<const char> text) {
  return kj::heapArray(text);
}

void wipe(kj::Vector<Block>& blocks) {
  for (auto& block : blocks) zeroize(block);
  blocks.clear();
}

bool isOneOf(kj::ArrayPtr<const Block> blocks, kj::ArrayPtr<const char> block) {
  for (auto& b : blocks) {
    if (b == block) return true;
  }
  return false;
}

// Returns the beginning of the last occurrence of `block`.
kj::Maybe<size_t> lastPlace(kj::ArrayPtr<const char> text, kj::ArrayPtr<const char> block) {
  if (block.size() == 0 || block.size() > text.size()) return nullptr;
  for (size_t at = text.size() - block.size() + 1; at-- > 0;) {
    if (memcmp(text.begin() + at, block.begin(), block.size()) != 0) continue;
    size_t end = at + block.size();
    if (end == text.size() || block.back() == '\n' || text[end] == '\n') return at;
  }
  return nullptr;
}

}  // namespace

kj::Array<char> withoutBlock(kj::ArrayPtr<const char> text, kj::ArrayPtr<const Block> blocks) {
  kj::Maybe<size_t> place;
  size_t size = 0;
  for (auto& block : blocks) {
    if (block.size() <= size) continue;
    KJ_IF_MAYBE (at, lastPlace(text, block)) {
      place = *at;
      size = block.size();
    }
  }
  KJ_IF_MAYBE (at, place) {
    auto result = kj::heapArray<char>(text.size() - size);
    std::copy_n(text.begin(), *at, result.begin());
    std::copy(text.begin() + *at + size, text.end(), result.begin() + *at);
    return result;
  }
  return kj::heapArray(text);
}

AppendedNotes::~AppendedNotes() noexcept(false) {
  for (auto& entry : blocks) wipe(entry.value);
}

AppendedNotes AppendedNotes::parse(kj::ArrayPtr<const char> content) {
  AppendedNotes notes;
  auto words = kj::heapArray<capnp::word>(content.size() / sizeof(capnp::word));
  KJ_DEFER(zeroize(words.asChars()));
  memcpy(words.begin(), content.begin(), words.asBytes().size());
  auto failed = kj::runCatchingExceptions([&]() {
    capnp::ReaderOptions options;
    options.traversalLimitInWords = words.size() + 1024;  // each block is read once
    capnp::FlatArrayMessageReader reader(words, options);
    for (auto file : reader.getRoot<rpc::AppendedBlocks>().getFiles()) {
      for (auto block : file.getBlocks()) notes.note(file.getPath(), block.asChars());
    }
  });
  if (failed != nullptr) fail(ErrorKind::kInvalidArgument, "the notes are damaged");
  return notes;
}

AppendedNotes AppendedNotes::load(kj::StringPtr path) {
  KJ_IF_MAYBE (content, tryReadFile(path, kMostNotes)) {
    KJ_DEFER(zeroize(content->asArray()));
    return parse(content->asArray());
  }
  return AppendedNotes();
}

void AppendedNotes::save(kj::StringPtr path) const {
  capnp::MallocMessageBuilder message;
  auto files = message.initRoot<rpc::AppendedBlocks>().initFiles(blocks.size());
  unsigned i = 0;
  for (auto& entry : blocks) {
    auto file = files[i++];
    file.setPath(entry.key);
    auto list = file.initBlocks(entry.value.size());
    unsigned j = 0;
    for (auto& block : entry.value) list.set(j++, block.asBytes());
  }
  auto words = capnp::messageToFlatArray(message);
  KJ_DEFER(zeroize(words.asBytes()); zeroize(message));
  writeFileAtomically(path, words.asChars(), 0600);
}

kj::ArrayPtr<const Block> AppendedNotes::of(kj::StringPtr file) const {
  KJ_IF_MAYBE (found, blocks.find(file)) return *found;
  return nullptr;
}

bool AppendedNotes::note(kj::StringPtr file, kj::ArrayPtr<const char> block) {
  if (isOneOf(of(file), block)) return false;
  KJ_IF_MAYBE (found, blocks.find(file)) {
    found->add(copyOf(block));
  } else {
    blocks.insert(kj::str(file), kj::Vector<Block>()).value.add(copyOf(block));
  }
  return true;
}

void AppendedNotes::replace(kj::StringPtr file, kj::Maybe<kj::ArrayPtr<const char>> block) {
  KJ_IF_MAYBE (found, blocks.find(file)) wipe(*found);
  blocks.erase(file);
  KJ_IF_MAYBE (b, block) note(file, *b);
}

kj::Vector<kj::String> AppendedNotes::files() const {
  kj::Vector<kj::String> result;
  for (auto& entry : blocks) result.add(kj::str(entry.key));
  return result;
}

}  // namespace talos::machined
