// The lines on their way to one receiver, on the disk.
//
//   <folder>/<number>.lines   segments: frames (append-only-frames.h), the oldest line first
//   <folder>/cursor           two slots of 256 bytes, written in turn: up to where lines are
//                             delivered
//
// A frame is a header line, "<stream> <ns since 1970> <id>", and whole lines of one log; its
// position is the log's position after these lines (rpc/local.capnp: LogFeedSink.next). A segment
// begins with the positions of all logs and the boot that they belong to, so that older segments
// can be removed.
//
// Lines that append() wrote survive a crash of the process, and a power cut up to the last sync().
// Following the logs from positions() puts each line into the spool once. The cursor is written
// when lines are delivered; a power cut may restore a cursor that is two seconds old, so that its
// lines are delivered twice. The cursor also says up to where lines were sent at least once, so
// that lines which are sent again are known as such after a crash, too. When waiting lines need
// more than the bound, the oldest segment is dropped, and its undelivered lines are counted: at
// least 7/8 of the bound are kept. A damaged segment loses the lines after the damage: read()
// returns a report in their place, and the lost bytes are counted when the cursor passes them.
// Bytes after the last whole frame of the newest segment are removed when it is opened, and not
// counted: a crash leaves such bytes.
//
// Blocking, for the disk's thread; one call at a time.
#pragma once

#include <kj/io.h>
#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>

#include <deque>
#include <map>
#include <string>

#include "rpc/config-monitoring.capnp.h"

namespace talos::logd {

constexpr size_t kMostOfFrame = 32u << 10;

class Spool {
 public:
  // Creates the folder, or continues with an existing one.
  Spool(kj::StringPtr folder, uint64_t bound);
  KJ_DISALLOW_COPY_AND_MOVE(Spool);

  using Log = std::pair<config::LogStream, std::string>;
  const std::map<Log, uint64_t>& positions() const { return next; }
  kj::StringPtr boot() const { return bootId; }
  // From now on positions belong to this boot; the positions of another boot are dropped.
  void begin(kj::StringPtr boot);

  // Appends whole lines of one log, at most 24 KiB. Appends nothing if it throws.
  void append(config::LogStream stream, kj::StringPtr id, kj::Date now,
              kj::ArrayPtr<const char> lines, uint64_t position);
  // Appends a line that reports the log's missed lines, in their place.
  void appendMissed(config::LogStream stream, kj::StringPtr id, kj::Date now, uint64_t count,
                    uint64_t position);

  // A place between two frames.
  struct Place {
    unsigned segment = 0;
    size_t offset = 0;
    auto operator<=>(const Place&) const = default;
  };
  struct Batch {
    Place next;  // place after it
    config::LogStream stream;
    kj::String id;
    kj::Date received = kj::UNIX_EPOCH;
    kj::Array<char> lines;
    bool missed = false;    // `lines` is a report of the log's missed lines
    bool repeated = false;  // These lines were sent before.
    size_t count = 0;       // number of lines
    uint64_t damaged = 0;   // bytes that the disk has lost here; `lines` is a report of them
  };
  // Returns the first frame at or after `from`; nullptr at the end.
  kj::Maybe<Batch> read(Place from);
  // Does the same for lines that are about to be sent, and notes that they were.
  kj::Maybe<Batch> take(Place from);
  // Notes that everything before `place` was sent, `again` lines of it once more.
  void sent(Place place, uint64_t again);
  Place cursor() const { return at; }
  // The receiver has everything before `place` except `refused` lines, which it refused, and a
  // report of `reported` dropped lines.
  void delivered(Place place, uint64_t reported, uint64_t refused = 0);
  // The receiver's kernel has acknowledged everything before `place`, but its connection may still
  // break: these lines are kept, and make room first when the spool is full, as sent ones. A place
  // before the cursor withdraws this: the connection broke.
  void acknowledged(Place place) { acknowledgedTo = place; }

  uint64_t unreported() const { return dropped; }  // number of dropped lines
  // Counts since the spool was made.
  struct Counts {
    uint64_t sentLines = 0, droppedLines = 0, refusedLines = 0;
    uint64_t missedBytes = 0, missedRecords = 0;  // of the kernel log: records
    uint64_t damagedBytes = 0;
    uint64_t repeatedLines = 0;  // sent again, with each attempt
  };
  const Counts& counts() const { return ever; }
  uint64_t waitingBytes() const;
  void sync();

 private:
  struct Segment {
    unsigned number = 0;
    size_t head = 0;  // size of the frame with the positions
    size_t size = 0;
    uint64_t lines = 0;
    size_t damaged = 0;                // bytes after its last readable frame when it was loaded
    kj::Date newest = kj::UNIX_EPOCH;  // time of its newest lines
  };
  kj::String folder, bootId;
  uint64_t bound;
  std::deque<Segment> segments;
  kj::AutoCloseFd file, cursorFile;  // `file` is the newest segment
  std::map<Log, uint64_t> next;
  Place at;                  // the cursor
  uint64_t linesBefore = 0;  // lines before the cursor in its segment
  Place takenTo, acknowledgedTo;
  uint64_t dropped = 0;  // lines whose loss is not reported yet
  Counts ever;
  uint64_t slot = 0;
  bool dirty = false;

  size_t segmentSize() const { return static_cast<size_t>(kj::min(bound / 8, 4u << 20)); }
  kj::String path(unsigned number) const;
  void load(unsigned number, bool newest);
  void loadCursor();
  void saveCursor();
  void startSegment();
  void add(char kind, config::LogStream stream, kj::StringPtr id, kj::Date now,
           kj::ArrayPtr<const char> lines, uint64_t position);
  void write(kj::ArrayPtr<const kj::byte> frame);
  Batch lost(size_t segment, uint64_t bytes);
  void advance(Place place);
  void dropOldest();
  void removeDelivered();
};

}  // namespace talos::logd
