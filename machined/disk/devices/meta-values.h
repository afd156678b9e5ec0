// The format of the partition META: values by tag, which outlast a new installation, as Talos and
// its boot loader write them. Pure: bytes in, bytes out.
//
// There are two vectors of values, each in two identical copies. The small one is of the boot
// loader and holds the tags that it knows; all others are in the large one. A copy counts only when
// its magic numbers, its checksum and the lengths in it are right; the first that counts is the one
// that is read, and when neither does, the vector is empty.
//
// A change of a value is a list of writes, each of which must be on the disk before the next one
// begins. Whatever write the power is cut at, and wherever in it, the partition then has all of the
// old values or all of the new ones: a copy is only written while the other one holds what is to
// last, and when the two differ, because of such a cut, they are made equal first.
//
// Values may be secrets, so every copy of them here is one that is zeroed
// (common/memory/secret-array.h).
//
// It runs in the brain and not among the confined parsers (machined/confined/parser): it reads a
// fixed number of bytes in one pass that allocates no more than these, copies values without
// looking into them, and is fuzzed; and what it reads must be changed and written back, for which
// the brain would have to believe the parser.
#pragma once

#include <kj/array.h>
#include <kj/map.h>
#include <kj/vector.h>
#include <stdint.h>

namespace talos::machined {

constexpr size_t kMetaBytes = 1 << 20;        // of the partition, at least
constexpr size_t kMetaCopyBytes = 256 << 10;  // of a copy of the large vector

enum class MetaTag : uint32_t {
  kUpgrade = 6,          // the label to fall back to
  kStagedImage = 7,      // reference of the installer's image
  kStagedOptions = 8,    // of the installer, JSON
  kStateEncryption = 9,  // JSON, with keys
  // Out of the way of keys that users choose.
  kReset = 0x52455345,        // a reset that was promised (node-reset.h)
  kFormatState = 0x464d5453,  // a file system is being made (format-marks.h)
  kFormatEphemeral = 0x464d5445,
  kTrialFailure = 0x4c415354,  // of a system on trial (machined/upgrade/upgrader.h)
  kVersionFloor = 0x464c4f52,  // of signed images (machined/upgrade/version-floor.h)
};

// Records of the system's own, which are read by their key and are not among the values that users
// see and choose keys for.
inline bool isSystemRecord(uint32_t tag) {
  switch (static_cast<MetaTag>(tag)) {
    case MetaTag::kReset:
    case MetaTag::kFormatState:
    case MetaTag::kFormatEphemeral:
    case MetaTag::kTrialFailure:
    case MetaTag::kVersionFloor:
      return true;
    default:
      return false;
  }
}

struct MetaWrite {
  uint64_t offset;
  kj::Array<kj::byte> bytes;
};

class MetaValues {
 public:
  using Bytes = kj::ArrayPtr<const kj::byte>;

  // The whole partition, kMetaBytes at least; what is behind the last megabyte counts for its end.
  // Fuzzing says that a copy is shorter: all but a fiftieth of the time goes into checksums
  // otherwise.
  explicit MetaValues(Bytes partition, size_t largeBytes = kMetaCopyBytes);

  kj::Maybe<Bytes> get(uint32_t tag) const;
  kj::Vector<uint32_t> tags() const;  // in their order
  // Throw InvalidArgument, and change nothing, for a tag that cannot be (0) and a value for which
  // there is no room.
  void set(uint32_t tag, Bytes value);
  bool remove(uint32_t tag);  // whether it was there

  // The writes after which the partition holds these values. None when it does already, in all
  // copies.
  kj::Vector<MetaWrite> writes() const;

 private:
  using Values = kj::TreeMap<uint32_t, kj::Array<kj::byte>>;
  struct Vector {
    bool small;
    size_t size;             // of a copy
    uint64_t first, second;  // offsets of the copies
    kj::Array<kj::byte> copies[2];
    Bytes source;  // the one of them that was read
    Values values;
  };
  Vector large, small;

  Vector& vectorOf(uint32_t tag) { return isSmall(tag) ? small : large; }
  const Vector& vectorOf(uint32_t tag) const { return isSmall(tag) ? small : large; }
  static bool isSmall(uint32_t tag);
  static void read(Vector& vector, Bytes partition);
  static kj::Maybe<Values> parse(bool small, Bytes copy);
  static kj::Array<kj::byte> encode(bool small, size_t size, const Values& values);
  static void addWrites(const Vector& vector, kj::Vector<MetaWrite>& out);
};

}  // namespace talos::machined
