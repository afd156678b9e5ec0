#include "common/etcd-data/etcd-database.h"

#include <kj/string.h>
#include <string.h>

#include <algorithm>

#include "common/base/error.h"

namespace talos {
namespace {

using Bytes = kj::ArrayPtr<const kj::byte>;

constexpr uint32_t kBoltMagic = 0xed0cdaed, kLayout = 2;
constexpr uint64_t kLeastPage = 1024, kMostPage = 64u << 10, kMostRead = 64u << 20;
constexpr size_t kHeader = 16, kElement = 16, kMeta = 64, kMetaSum = 56, kBucket = 16;
constexpr uint16_t kBranch = 1, kLeaf = 2;
constexpr uint32_t kIsBucket = 1;
constexpr unsigned kDeepest = 64;
constexpr size_t kRevision = 17;  // main revision, '_', sub revision; a deletion has one byte more

[[noreturn]] void refuse(kj::StringPtr problem) {
  fail(ErrorKind::kInvalidArgument, kj::str("the snapshot is not a database of etcd: ", problem));
}

Bytes part(Bytes bytes, uint64_t at, uint64_t size) {
  if (at > bytes.size() || size > bytes.size() - at) refuse("a page points outside of the file");
  return bytes.slice(at, at + size);
}

// Reads a little-endian number; every machine on which etcd is supported is little-endian.
template <typename T>
T number(Bytes bytes, uint64_t at) {
  T value;
  memcpy(&value, part(bytes, at, sizeof value).begin(), sizeof value);
  return value;
}

bool isBefore(Bytes a, Bytes b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

uint64_t bigEndian(Bytes bytes) {
  uint64_t value = 0;
  for (auto byte : bytes.slice(0, 8)) value = value << 8 | byte;
  return value;
}

// Returns FNV-1a of 64 bits.
uint64_t sumOf(Bytes bytes) {
  uint64_t sum = 0xcbf29ce484222325;
  for (auto byte : bytes) sum = (sum ^ byte) * 0x100000001b3;
  return sum;
}

struct Meta {
  uint64_t pageSize, root, transaction;
};

class File {
 public:
  File(uint64_t size, ReadDatabase& read) : size(size), source(read) {}

  bool has(uint64_t at, uint64_t bytes) const { return at <= size && bytes <= size - at; }
  kj::Array<kj::byte> read(uint64_t at, uint64_t bytes) const {
    if (!has(at, bytes)) refuse("a page points outside of the file");
    if (bytes > kMostRead) refuse("a page is too large");
    return source(at, static_cast<size_t>(bytes));
  }

 private:
  uint64_t size;
  ReadDatabase& source;
};

kj::Maybe<Meta> metaAt(const File& file, uint64_t at) {
  if (!file.has(at, kHeader + kMeta)) return nullptr;
  auto meta = file.read(at + kHeader, kMeta);
  Meta found{number<uint32_t>(meta, 8), number<uint64_t>(meta, 16), number<uint64_t>(meta, 48)};
  bool valid = number<uint32_t>(meta, 0) == kBoltMagic && number<uint32_t>(meta, 4) == kLayout &&
               found.pageSize >= kLeastPage && found.pageSize <= kMostPage &&
               (found.pageSize & (found.pageSize - 1)) == 0 &&
               sumOf(meta.slice(0, kMetaSum)) == number<uint64_t>(meta, kMetaSum);
  if (!valid) return nullptr;
  return found;
}

// Returns the newer of the first two pages, which are written in turns: one of them may be older,
// or torn by a crash.
Meta newestMeta(const File& file) {
  auto newest = metaAt(file, 0);
  for (uint64_t at = kLeastPage; at <= kMostPage; at *= 2) {
    KJ_IF_MAYBE (second, metaAt(file, at)) {
      if (second->pageSize != at) continue;
      KJ_IF_MAYBE (first, newest) {
        if (first->pageSize != at || first->transaction > second->transaction) continue;
      }
      newest = *second;
    }
  }
  KJ_IF_MAYBE (found, newest) return *found;
  refuse("neither of its first pages is valid");
}

struct Element {
  uint32_t flags = 0;  // of a leaf
  Bytes key, value;    // the latter of a leaf
  uint64_t page = 0;   // of a branch
};

// From its header on, with the pages that overflow it.
class Page {
 public:
  explicit Page(kj::Array<kj::byte> content)
      : bytes(kj::mv(content)),
        flags(number<uint16_t>(bytes, 8)),
        count(number<uint16_t>(bytes, 10)) {}

  bool isLeaf() const { return flags == kLeaf; }
  bool isBranch() const { return flags == kBranch; }
  size_t size() const { return count; }
  Element operator[](size_t index) const {
    uint64_t at = kHeader + index * kElement;
    Element found;
    if (isBranch()) {
      found.key = part(bytes, at + number<uint32_t>(bytes, at), number<uint32_t>(bytes, at + 4));
      found.page = number<uint64_t>(bytes, at + 8);
      return found;
    }
    found.flags = number<uint32_t>(bytes, at);
    uint64_t key = at + number<uint32_t>(bytes, at + 4), size = number<uint32_t>(bytes, at + 8);
    found.key = part(bytes, key, size);
    found.value = part(bytes, key + size, number<uint32_t>(bytes, at + 12));
    return found;
  }

 private:
  kj::Array<kj::byte> bytes;
  uint16_t flags;
  size_t count;
};

class Database {
 public:
  explicit Database(File file) : file(file), meta(newestMeta(file)) {}

  Page root() const { return page(meta.root); }
  // Returns the root page of a bucket. A small bucket's root is within the bucket's value.
  Page rootOf(Bytes value) const {
    auto number = talos::number<uint64_t>(value, 0);
    if (number != 0) return page(number);
    return Page(kj::heapArray(part(value, kBucket, value.size() - kBucket)));
  }
  // Returns the leaf that has this key, if any, otherwise the last leaf.
  Page leaf(Page at, kj::Maybe<kj::StringPtr> key) const {
    for (unsigned depth = 0; depth < kDeepest; ++depth) {
      if (at.isLeaf()) return at;
      if (!at.isBranch() || at.size() == 0) refuse("a page is of no known kind");
      at = page(at[childOf(at, key)].page);
    }
    refuse("its pages point in a circle");
  }

 private:
  File file;
  Meta meta;

  Page page(uint64_t number) const {
    constexpr uint64_t kMostPages = kj::maxValue;
    if (number < 2 || number > kMostPages / meta.pageSize - 1) {
      refuse("a page points outside of the file");
    }
    auto at = number * meta.pageSize;
    auto header = file.read(at, kHeader);
    auto more = talos::number<uint32_t>(header, 12);
    return Page(file.read(at, (uint64_t{more} + 1) * meta.pageSize));
  }
  static size_t childOf(const Page& branch, kj::Maybe<kj::StringPtr> key) {
    KJ_IF_MAYBE (wanted, key) {
      size_t child = 0;
      for (size_t i = 1; i < branch.size() && !isBefore(wanted->asBytes(), branch[i].key); ++i)
        child = i;
      return child;
    }
    return branch.size() - 1;
  }
};

}  // namespace

int64_t newestRevision(uint64_t size, ReadDatabase read) {
  Database database(File(size, read));
  constexpr auto kKeys = "key"_kj;
  auto buckets = database.leaf(database.root(), kKeys);
  for (size_t i = 0; i < buckets.size(); ++i) {
    auto bucket = buckets[i];
    if (bucket.key != kKeys.asBytes() || (bucket.flags & kIsBucket) == 0) continue;
    auto newest = database.leaf(database.rootOf(bucket.value), nullptr);
    if (newest.size() == 0) return 1;
    auto key = newest[newest.size() - 1].key;
    if (key.size() < kRevision || key[8] != '_') refuse("a key has no revision");
    auto revision = bigEndian(key);
    constexpr uint64_t kMost = INT64_MAX;
    if (revision > kMost) refuse("a revision is too large");
    return static_cast<int64_t>(revision);
  }
  refuse("it has no keys");
}

}  // namespace talos
