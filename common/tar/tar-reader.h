// A reader of tar archives: POSIX ustar with pax headers, and GNU long names. Bytes in, entries
// out; no I/O.
//
// The archive is foreign: checksums are verified, numbers and lengths are bounded, names are passed
// on unchanged (safePath() decides which may be created). For any bytes, in any pieces, the reader
// never reads out of bounds, always makes progress, and keeps at most kMaxHeader bytes.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>

namespace talos {

struct TarEntry {
  enum class Kind { kFile, kDirectory, kSymlink, kHardLink, kOther };
  Kind kind = Kind::kFile;
  kj::String path;
  kj::String link;       // for kSymlink and kHardLink
  uint64_t size = 0;     // for kFile; otherwise 0
  uint32_t mode = 0;     // permission bits, 07777
  int64_t modified = 0;  // seconds since 1970
};

class TarVisitor {
 public:
  virtual ~TarVisitor() noexcept(false) = default;
  // Called for each entry: entry(), then data() until `size` bytes were passed, then end().
  virtual void entry(const TarEntry& entry) = 0;
  virtual void data(kj::ArrayPtr<const kj::byte> bytes) = 0;
  virtual void end() = 0;
};

class TarReader {
 public:
  static constexpr size_t kMaxHeader =
      1 << 20;  // for pax records and long names together, for one entry

  // Returns the problem of the archive, if any. After a problem the reader must not be fed again.
  kj::Maybe<kj::String> feed(kj::ArrayPtr<const kj::byte> bytes, TarVisitor& visitor);
  // Returns, in the data of an entry, the number of bytes that are still missing: they count as
  // read, the visitor's end() is called, and the next bytes to feed are those after them. Otherwise
  // returns 0.
  uint64_t skipData(TarVisitor& visitor);
  bool atEnd() const { return state == State::kEnd; }  // later bytes are ignored

  // Called at the end of the input: returns a problem if the archive is truncated.
  kj::Maybe<kj::String> finish() const;

 private:
  enum class State { kHeader, kExtended, kData, kPadding, kEnd };
  State state = State::kHeader;
  kj::Vector<kj::byte> block;  // the header that is being read, or the extended one
  uint64_t left = 0;           // bytes of the part that is being read
  uint64_t padding = 0;
  char extendedType = 0;
  uint64_t position = 0;  // for messages
  bool zeroSeen = false;
  bool inEntry = false;
  TarEntry next;  // values for the next entry from extended headers
  bool hasPath = false, hasLink = false, hasSize = false, hasTime = false;

  kj::Maybe<kj::String> header(TarVisitor& visitor);
  kj::Maybe<kj::String> extended();
  kj::Maybe<kj::String> paxRecords(kj::ArrayPtr<const char> text);
  void endPart(TarVisitor& visitor);
};

// Returns the path that may be created below a directory: relative, without "." and empty parts;
// nullptr for an absolute path, a path with "..", one that ends up empty, or one with a NUL.
kj::Maybe<kj::Vector<kj::String>> safePath(kj::StringPtr path);

}  // namespace talos
