#include "logd/spool.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/append-only-frames.h"
#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/base/lines.h"

namespace talos::logd {
namespace {

using config::LogStream;

constexpr kj::StringPtr kSegmentEnding = ".lines"_kj;
constexpr size_t kSlot = 256, kMostSegments = 4096;
constexpr size_t kLargestSegment = 1u << 30;
// The first letter of a header.
constexpr char kPositions = 'P', kMissed = 'M', kLines = 'L';

struct Header {
  char kind = 0;
  LogStream stream = LogStream::SERVICES;
  kj::Date received = kj::UNIX_EPOCH;
  kj::StringPtr id;
  kj::String line;  // contains the id
  kj::ArrayPtr<const char> rest;
};

size_t countLines(kj::ArrayPtr<const char> text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

// Parses "L<stream> <ns> <id>\n…"; this program wrote it, and the frame's checksum was checked.
Header headerOf(kj::ArrayPtr<const char> bytes) {
  Header header;
  size_t end = 0;
  while (end < bytes.size() && bytes[end] != '\n') ++end;
  header.line = kj::heapString(bytes.slice(0, end));
  header.rest = bytes.slice(kj::min(end + 1, bytes.size()), bytes.size());
  if (header.line.size() < 2) return header;
  header.kind = header.line[0];
  header.stream = static_cast<LogStream>(header.line[1] - '0');
  char* rest = nullptr;
  auto ns = strtoll(header.line.cStr() + 2, &rest, 10);
  header.received = kj::UNIX_EPOCH + ns * kj::NANOSECONDS;
  if (*rest == ' ') ++rest;
  header.id = header.line.slice(static_cast<size_t>(rest - header.line.cStr()));
  return header;
}

kj::Array<char> textOf(char kind, LogStream stream, kj::Date now, kj::StringPtr id,
                       kj::ArrayPtr<const char> lines) {
  auto head = kj::str(kind, static_cast<unsigned>(stream), ' ',
                      (now - kj::UNIX_EPOCH) / kj::NANOSECONDS, ' ', id, '\n');
  auto text = kj::heapArrayBuilder<char>(head.size() + lines.size());
  text.addAll(head);
  text.addAll(lines);
  return text.finish();
}

kj::Array<kj::byte> readSegment(kj::StringPtr path) {
  auto text = tryReadFile(path, kLargestSegment).orDefault(kj::String());
  return kj::heapArray<kj::byte>(text.asBytes());
}

}  // namespace

Spool::Spool(kj::StringPtr f, uint64_t bound) : folder(kj::str(f)), bound(bound) {
  makeDirectories(folder, 0700);
  kj::Vector<unsigned> numbers;
  for (auto& name : namesIn(folder, kMostSegments)) {
    if (!name.endsWith(kSegmentEnding)) continue;
    auto digits = kj::str(name.slice(0, name.size() - kSegmentEnding.size()));
    KJ_IF_MAYBE (number, digits.tryParseAs<unsigned>()) numbers.add(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  int fd;
  auto name = kj::str(folder, "/cursor");
  KJ_SYSCALL(fd = open(name.cStr(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600), name);
  cursorFile = kj::AutoCloseFd(fd);
  for (auto i : kj::indices(numbers)) load(numbers[i], i + 1 == numbers.size());
  if (segments.empty()) startSegment();
  loadCursor();
}

kj::String Spool::path(unsigned number) const {
  char digits[16];
  snprintf(digits, sizeof digits, "%08u", number);
  return kj::str(folder, "/", digits, kSegmentEnding);
}

void Spool::load(unsigned number, bool newest) {
  Segment segment{.number = number};
  auto bytes = readSegment(path(number));
  segment.size = readFrames(bytes, [&](Piece piece) {
    auto header = headerOf(piece.bytes);
    if (header.kind == kPositions) {
      segment.head = kFrameHead + piece.bytes.size();
      begin(header.id);
      for (auto line : Lines(header.rest)) {
        auto one = headerOf(line);  // "P<stream> <position> <id>"
        next[{one.stream, one.id.cStr()}] =
            static_cast<uint64_t>((one.received - kj::UNIX_EPOCH) / kj::NANOSECONDS);
      }
      return;
    }
    segment.lines += header.kind == kMissed ? 0 : countLines(header.rest);
    segment.newest = header.received;
    if (piece.position > 0) next[{header.stream, header.id.cStr()}] = piece.position;
  });
  if (newest) {
    int fd;
    auto name = path(number);
    KJ_SYSCALL(fd = open(name.cStr(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC), name);
    file = kj::AutoCloseFd(fd);
    // Bytes that a power cut left after the last whole frame would hide the next frame.
    if (segment.size < bytes.size()) {
      KJ_SYSCALL(ftruncate(fd, static_cast<off_t>(segment.size)), name);
    }
  } else {
    segment.damaged = bytes.size() - segment.size;
    segment.size = bytes.size();
  }
  segments.push_back(segment);
}

void Spool::loadCursor() {
  at = {segments.front().number, 0};
  auto bytes = kj::heapArray<kj::byte>(2 * kSlot);
  auto size = readAt(cursorFile, 0, bytes, "cursor");
  for (size_t from = 0; from + kSlot <= size; from += kSlot) {
    readFrames(bytes.slice(from, from + kSlot), [&](Piece piece) {
      if (piece.position <= slot) return;
      auto text = kj::heapString(piece.bytes);
      unsigned long long offset, open, lost, missed, delivered, refused = 0, taken = 0;
      unsigned long long repeated = 0, records = 0, damaged = 0;
      unsigned segment, takenSegment = 0;
      // Earlier versions had fewer numbers.
      if (sscanf(text.cStr(), "%u %llu %llu %llu %llu %llu %llu %u %llu %llu %llu %llu", &segment,
                 &offset, &open, &lost, &missed, &delivered, &refused, &takenSegment, &taken,
                 &repeated, &records, &damaged) < 6) {
        return;
      }
      slot = piece.position;
      at = {segment, static_cast<size_t>(offset)};
      dropped = open;
      ever = {.sentLines = delivered,
              .droppedLines = lost,
              .refusedLines = refused,
              .missedBytes = missed,
              .missedRecords = records,
              .damagedBytes = damaged,
              .repeatedLines = repeated};
      takenTo = {takenSegment, static_cast<size_t>(taken)};
    });
  }
  // The cursor may be newer than lines that a power cut has taken, and older than removed segments.
  if (at.segment < segments.front().number) at = {segments.front().number, 0};
  auto& newest = segments.back();
  const Place end{newest.number, newest.size};
  at = kj::min(at, end);
  takenTo = kj::min(takenTo, end);
  for (auto& segment : segments) {
    if (segment.number != at.segment) continue;
    auto content = readSegment(path(segment.number));
    size_t offset = 0;
    readFrames(content, [&](Piece piece) {
      auto header = headerOf(piece.bytes);
      if (offset < at.offset && header.kind == kLines) linesBefore += countLines(header.rest);
      offset += kFrameHead + piece.bytes.size();
    });
  }
  removeDelivered();
}

void Spool::saveCursor() {
  ++slot;
  auto text = kj::str(at.segment, ' ', at.offset, ' ', dropped, ' ', ever.droppedLines, ' ',
                      ever.missedBytes, ' ', ever.sentLines, ' ', ever.refusedLines, ' ',
                      takenTo.segment, ' ', takenTo.offset, ' ', ever.repeatedLines, ' ',
                      ever.missedRecords, ' ', ever.damagedBytes);
  auto frame = frameOf(slot, text);
  KJ_ASSERT(frame.size() <= kSlot);
  auto padded = kj::heapArray<kj::byte>(kSlot);
  memset(padded.begin(), 0, kSlot);
  memcpy(padded.begin(), frame.begin(), frame.size());
  ssize_t n;
  KJ_SYSCALL(n = pwrite(cursorFile, padded.begin(), kSlot, slot % 2 * kSlot), folder);
  dirty = true;
}

void Spool::begin(kj::StringPtr boot) {
  if (bootId == boot) return;
  bootId = kj::str(boot);
  next.clear();
  if (file != nullptr && !segments.empty()) startSegment();
}

void Spool::startSegment() {
  auto number = segments.empty() ? 1 : segments.back().number + 1;
  auto name = path(number);
  int fd;
  KJ_SYSCALL(fd = open(name.cStr(),
                       O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600),
             name);
  kj::AutoCloseFd made(fd);
  kj::Vector<char> known;
  for (auto& entry : next) {
    known.addAll(kj::str(kPositions, static_cast<unsigned>(entry.first.first), ' ', entry.second,
                         ' ', entry.first.second.c_str(), '\n'));
  }
  auto frame = frameOf(0, textOf(kPositions, LogStream::SERVICES, kj::UNIX_EPOCH, bootId, known));
  KJ_ON_SCOPE_FAILURE((void)unlink(name.cStr()));
  kj::FdOutputStream(made.get()).write(frame.begin(), frame.size());
  // Synced before any older segment is removed: then only this segment has the positions.
  KJ_SYSCALL(fdatasync(made), name);
  if (file != nullptr) {
    KJ_SYSCALL(fdatasync(file), name);
  }
  syncFolder(folder);
  file = kj::mv(made);
  segments.push_back(Segment{.number = number, .head = frame.size(), .size = frame.size()});
}

void Spool::append(LogStream stream, kj::StringPtr id, kj::Date now, kj::ArrayPtr<const char> lines,
                   uint64_t position) {
  add(kLines, stream, id, now, lines, position);
  segments.back().lines += countLines(lines);
}

void Spool::appendMissed(LogStream stream, kj::StringPtr id, kj::Date now, uint64_t count,
                         uint64_t position) {
  auto unit = stream == LogStream::KERNEL ? "records"_kj : "bytes"_kj;
  add(kMissed, stream, id, now,
      kj::str(count, " ", unit, " of this log were overwritten before they could be sent\n"),
      position);
  (stream == LogStream::KERNEL ? ever.missedRecords : ever.missedBytes) += count;
  saveCursor();  // The count is in its file.
}

void Spool::add(char kind, LogStream stream, kj::StringPtr id, kj::Date now,
                kj::ArrayPtr<const char> lines, uint64_t position) {
  auto frame = frameOf(position, textOf(kind, stream, now, id, lines));
  if (segments.back().size + frame.size() > segmentSize()) startSegment();
  while (waitingBytes() + frame.size() > bound && segments.size() > 1) dropOldest();
  write(frame);
  segments.back().newest = now;
  if (position > 0) next[{stream, id.cStr()}] = position;
}

void Spool::write(kj::ArrayPtr<const kj::byte> frame) {
  auto& newest = segments.back();
  // All or nothing: half a frame would hide the following frames.
  KJ_ON_SCOPE_FAILURE((void)!ftruncate(file, static_cast<off_t>(newest.size)));
  kj::FdOutputStream(file.get()).write(frame.begin(), frame.size());
  newest.size += frame.size();
  dirty = true;
}

uint64_t Spool::waitingBytes() const {
  uint64_t bytes = 0;
  for (auto& segment : segments) {
    if (segment.number == at.segment) bytes += segment.size - kj::max(at.offset, segment.head);
    if (segment.number > at.segment) bytes += segment.size - segment.head;
  }
  return bytes;
}

void Spool::dropOldest() {
  auto& oldest = segments.front();
  advance(kj::min(acknowledgedTo, Place{segments[1].number, 0}));
  if (at.segment == oldest.number) {
    // Lines after a damaged place, which the cursor may have passed, are not in oldest.lines.
    auto lines = oldest.lines - kj::min(linesBefore, oldest.lines);
    dropped += lines;
    ever.droppedLines += lines;
    ever.damagedBytes += kj::min(oldest.damaged, oldest.size - kj::min(at.offset, oldest.size));
    at = {segments[1].number, 0};
    linesBefore = 0;
  }
  saveCursor();
  removeDelivered();
}

void Spool::removeDelivered() {
  while (segments.size() > 1 && segments.front().number < at.segment) {
    auto name = path(segments.front().number);
    if (unlink(name.cStr()) != 0 && errno != ENOENT) KJ_FAIL_SYSCALL("unlink", errno, name);
    segments.pop_front();
  }
}

kj::Maybe<Spool::Batch> Spool::read(Place from) {
  if (from < at) from = at;
  for (auto i : kj::indices(segments)) {
    auto& segment = segments[i];
    if (segment.number < from.segment) continue;
    if (segment.number > from.segment) from = {segment.number, 0};
    while (from.offset < segment.size) {
      auto name = path(segment.number);
      int fd;
      KJ_SYSCALL(fd = open(name.cStr(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC), name);
      kj::AutoCloseFd opened(fd);
      auto bytes =
          kj::heapArray<kj::byte>(kj::min(kFrameHead + kMostPiece, segment.size - from.offset));
      auto size = readAt(opened, from.offset, bytes, name);
      kj::Maybe<Batch> found;
      size_t frame = 0;
      readFrames(bytes.slice(0, size), [&](Piece piece) {
        if (frame > 0) return;
        frame = kFrameHead + piece.bytes.size();
        auto header = headerOf(piece.bytes);
        if (header.kind == kPositions) return;
        found = Batch{.next = {segment.number, from.offset + frame},
                      .stream = header.stream,
                      .id = kj::str(header.id),
                      .received = header.received,
                      .lines = kj::heapArray<char>(header.rest),
                      .missed = header.kind == kMissed,
                      .repeated = Place{segment.number, from.offset + frame} <= takenTo,
                      .count = header.kind == kMissed ? 0 : countLines(header.rest)};
      });
      if (frame == 0) return lost(i, segment.size - from.offset);
      KJ_IF_MAYBE (batch, found) return kj::mv(*batch);
      from.offset += frame;
    }
  }
  return nullptr;
}

// Returns the report of a damaged segment's last bytes. Lines after it are in the next segment,
// which is made if the newest one is damaged.
Spool::Batch Spool::lost(size_t segment, uint64_t bytes) {
  if (segment + 1 == segments.size()) startSegment();
  Place next{segments[segment + 1].number, 0};
  auto report = kj::str(bytes, " bytes of lines were lost: the disk has damaged the buffer\n");
  return {.next = next,
          .stream = LogStream::SERVICES,
          .id = kj::String(),
          .received = segments[segment].newest,
          .lines = kj::heapArray<char>(report.asArray()),
          .repeated = next <= takenTo,
          .damaged = bytes};
}

kj::Maybe<Spool::Batch> Spool::take(Place from) {
  auto found = read(from);
  KJ_IF_MAYBE (batch, found) sent(batch->next, batch->repeated ? batch->count : 0);
  return found;
}

void Spool::sent(Place place, uint64_t again) {
  ever.repeatedLines += again;
  takenTo = kj::max(takenTo, place);
  saveCursor();
}

// Moves the cursor over sent lines. It counts them from the files, because the range may span
// several segments.
void Spool::advance(Place place) {
  for (auto from = at; from < place;) {
    KJ_IF_MAYBE (batch, read(from)) {
      if (batch->next > place) break;
      if (batch->next.segment != at.segment) linesBefore = 0;
      at = batch->next;
      linesBefore += batch->count;
      ever.sentLines += batch->count;
      ever.damagedBytes += batch->damaged;
      from = batch->next;
    } else {
      break;
    }
  }
}

void Spool::delivered(Place place, uint64_t reported, uint64_t refused) {
  dropped -= kj::min(dropped, reported);
  auto before = ever.sentLines;
  advance(place);
  // Lines that were dropped meanwhile count only as dropped.
  refused = kj::min(refused, ever.sentLines - before);
  ever.sentLines -= refused;
  ever.refusedLines += refused;
  saveCursor();
  removeDelivered();
}

void Spool::sync() {
  if (!dirty) return;
  KJ_SYSCALL(fdatasync(file), folder);
  KJ_SYSCALL(fdatasync(cursorFile), folder);
  dirty = false;
}

}  // namespace talos::logd
