// A disk with a volatile write cache: serves a machine, and loses unflushed writes when its power
// is cut.
//
// A write goes to the medium at once, and the previous content is remembered until the next flush.
// So reading and flushing cost nothing, and no write is lost when this process exits in any way:
// only cut() undoes writes. It undoes the unflushed ones, the newest first, and then repeats, in
// their order, those that had reached the medium. An older write never overwrites a newer one on
// the same sectors: a disk may drop and reorder writes in its cache, but the cache has only the
// newest of each sector.
//
// The memory of writes is bounded: beyond the bound the oldest writes count as flushed, as a disk
// writes back when its cache is full. An operation larger than the bound counts as flushed.
//
// After a crash in the middle of cut() the medium is as if some of the unflushed writes had been
// lost and one of them torn, as at a power cut; but the lost writes may include FUA writes, which
// no disk loses.
#pragma once

#include <kj/common.h>
#include <kj/vector.h>

#include <deque>

namespace talos::disk {

constexpr uint64_t kSector = 512;  // is written whole or not at all

struct Range {
  uint64_t begin, end;
};

// The storage of a disk. Its operations throw, with kResourceExhausted when it is full.
class Medium {
 public:
  virtual ~Medium() noexcept(false) = default;
  virtual uint64_t size() const = 0;
  virtual void read(uint64_t offset, kj::ArrayPtr<kj::byte> into) = 0;
  virtual void write(uint64_t offset, kj::ArrayPtr<const kj::byte> bytes) = 0;
  virtual void zero(uint64_t offset, uint64_t length) = 0;
  // Returns the first part of the range that may hold anything but zeros.
  virtual kj::Maybe<Range> content(Range range) = 0;
};

// For each unflushed write, how many of its first bytes reach the medium.
using Fates = kj::ArrayPtr<const uint64_t>;

// Draws the fates of writes of these lengths: some reach the medium, some do not, and perhaps one
// of them only up to a sector. The result is the same for the same seed and lengths, on every host.
kj::Array<uint64_t> drawFates(kj::ArrayPtr<const uint64_t> lengths, uint64_t seed);

class VolatileDisk {
 public:
  static constexpr size_t kMostRemembered = 64 << 20;

  explicit VolatileDisk(Medium& medium, size_t mostRemembered = kMostRemembered)
      : medium(medium), mostRemembered(mostRemembered) {}
  KJ_DISALLOW_COPY_AND_MOVE(VolatileDisk);

  // Ranges are within the medium. `durable`: the write survives a cut (FUA), earlier writes need
  // not.
  void read(uint64_t offset, kj::ArrayPtr<kj::byte> into) { medium.read(offset, into); }
  void write(uint64_t offset, kj::ArrayPtr<const kj::byte> bytes, bool durable);
  void zero(uint64_t offset, uint64_t length, bool durable);
  void flush();

  // Returns the lengths of the writes that a cut may lose, oldest first.
  kj::Array<uint64_t> unflushed() const;
  // Loses the unflushed writes except for the parts that `fates` lets reach the medium, which are
  // then durable.
  void cut(Fates fates);

 private:
  struct Piece {
    uint64_t offset;
    kj::Array<kj::byte> bytes;
  };
  // Content of a range: zeros except for these pieces.
  using Content = kj::Vector<Piece>;
  struct Done {
    uint64_t offset, length;
    Content before;
    size_t cost;
    bool durable;
  };

  Medium& medium;
  size_t mostRemembered;
  size_t remembered = 0;  // sum of the costs
  std::deque<Done> done;  // oldest first

  // Returns nullptr if the content is more than `most` bytes.
  kj::Maybe<Content> contentOf(uint64_t offset, uint64_t length, size_t most);
  void restore(uint64_t offset, uint64_t length, const Content& content);
  void remember(uint64_t offset, uint64_t length, size_t news, bool durable);
};

}  // namespace talos::disk
