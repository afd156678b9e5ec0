// The lines on their way to one receiver, on the disk.
//
//   <folder>/<number>.lines   segments: frames (append-only-frames.h), the oldest line first
//   <folder>/cursor           two slots of 256 bytes, written in turn: up to where lines are
//                             delivered
//
// A frame is a header line, "<stream> <ns since 1970> <id>", and whole lines of one log; its
// position is that of the log behind them (rpc/local.capnp: LogFeedSink.next). A segment begins
// with the positions of all logs and the boot that they are of, so that older segments can go.
//
// Lines that append() wrote survive a crash of the process, and a power cut as far as sync() came.
// positions() is where the logs have to be followed from: then each line is here once. The
// cursor is written when lines are delivered; a power cut may bring back one that is two seconds
// old, whose lines are then delivered twice. When lines wait that need more than the bound, the
// oldest segment is dropped, and its lines that were not delivered are counted: at least 7/8 of the
// bound are kept. A damaged segment loses the lines behind the damage.
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
  // Makes the folder, or goes on with it.
  Spool(kj::StringPtr folder, uint64_t bound);
  KJ_DISALLOW_COPY_AND_MOVE(Spool);

  using Log = std::pair<config::LogStream, std::string>;
  const std::map<Log, uint64_t>& positions() const { return next; }
  kj::StringPtr boot() const { return bootId; }
  // Positions are of this boot from now on; those of another one are forgotten.
  void begin(kj::StringPtr boot);

  // Whole lines of one log, at most 24 KiB. Nothing is there if it throws.
  void append(config::LogStream stream, kj::StringPtr id, kj::Date now,
              kj::ArrayPtr<const char> lines, uint64_t position);
  // A line that says what the log missed, in its place.
  void appendMissed(config::LogStream stream, kj::StringPtr id, kj::Date now, uint64_t count,
                    uint64_t position);

  // A place between two frames.
  struct Place {
    unsigned segment = 0;
    size_t offset = 0;
    auto operator<=>(const Place&) const = default;
  };
  struct Batch {
    Place next;  // behind it
    config::LogStream stream;
    kj::String id;
    kj::Date received = kj::UNIX_EPOCH;
    kj::Array<char> lines;
    bool missed = false;
    size_t count = 0;  // lines
  };
  // The first frame at or behind `from`; none at the end.
  kj::Maybe<Batch> read(Place from);
  Place cursor() const { return at; }
  // The receiver has everything before `place` but so many lines that it refused, and a report of
  // so many dropped ones.
  void delivered(Place place, uint64_t reported, uint64_t refused = 0);

  uint64_t unreported() const { return dropped; }  // dropped lines
  uint64_t droppedLines() const { return droppedEver; }
  uint64_t missedBytes() const { return missedEver; }
  uint64_t sentLines() const { return sentEver; }
  uint64_t refusedLines() const { return refusedEver; }
  uint64_t waitingBytes() const;
  void sync();
  void setBound(uint64_t bytes) { bound = bytes; }

 private:
  struct Segment {
    unsigned number = 0;
    size_t head = 0;  // of the positions
    size_t size = 0;
    uint64_t lines = 0;
  };
  kj::String folder, bootId;
  uint64_t bound;
  std::deque<Segment> segments;
  kj::AutoCloseFd file, cursorFile;  // of the newest segment
  std::map<Log, uint64_t> next;
  Place at;
  uint64_t linesBefore = 0;  // the cursor, in its segment
  uint64_t dropped = 0, droppedEver = 0, missedEver = 0, sentEver = 0, refusedEver = 0;
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
  void dropOldest();
  void removeDelivered();
};

}  // namespace talos::logd
