// The format of the partition META: values by tag, which survive a new installation, as Talos and
// its boot loader write them. Pure: bytes in, bytes out.
//
// META has two vectors of values, each in two identical copies. The small vector belongs to the
// boot loader and holds the tags that the boot loader knows; the large vector holds all others. A
// copy is valid only if its magic numbers, its checksum and its lengths are right. The first valid
// copy is read; if neither copy is valid, the vector is empty.
//
// A change of a value is a list of writes, each of which must be on the disk before the next one
// begins. Wherever the power is cut, even within a write, the partition then has all of the old
// values or all of the new ones: a copy is written only while the other copy holds the values that
// must survive. If such a cut made the copies differ, they are made equal first.
//
// Values may be secrets, so each copy of them here is in memory that is zeroed
// (common/memory/secret-array.h).
//
// This code runs in the brain, not among the confined parsers (machined/confined/parser). It reads
// a fixed number of bytes in one pass that allocates no more than these bytes, copies values
// without parsing them, and is fuzzed. The values must also be changed and written back, for which
// the brain would have to trust the parser.
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
  // Tags outside the range of keys that users choose.
  kReset = 0x52455345,        // a reset that was promised (node-reset.h)
  kFormatState = 0x464d5453,  // a file system is being made (format-marks.h)
  kFormatEphemeral = 0x464d5445,
  kTrialFailure = 0x4c415354,  // of a system on trial (machined/upgrade/upgrader.h)
  kVersionFloor = 0x464c4f52,  // of signed images (machined/upgrade/version-floor.h)
};

// Returns true for the system's own records. They are read by their key, and are not among the
// values that users see and choose keys for.
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

  // Takes the whole partition, at least kMetaBytes; bytes after the last whole megabyte count as
  // its end. A fuzzer passes shorter copies, because otherwise all but a fiftieth of its time goes
  // into checksums.
  explicit MetaValues(Bytes partition, size_t largeBytes = kMetaCopyBytes);

  kj::Maybe<Bytes> get(uint32_t tag) const;
  kj::Vector<uint32_t> tags() const;  // in ascending order
  // Sets a value in memory; writes() has the change of the partition. Throws InvalidArgument, and
  // changes nothing, for the invalid tag 0 and for a value that does not fit.
  void set(uint32_t tag, Bytes value);
  bool remove(uint32_t tag);  // true if it existed

  // Returns the writes after which the partition holds these values; empty if all copies hold them
  // already.
  kj::Vector<MetaWrite> writes() const;

 private:
  using Values = kj::TreeMap<uint32_t, kj::Array<kj::byte>>;
  struct Vector {
    bool small;
    size_t size;             // of a copy
    uint64_t first, second;  // offsets of the copies
    kj::Array<kj::byte> copies[2];
    Bytes source;  // the copy that was read
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
