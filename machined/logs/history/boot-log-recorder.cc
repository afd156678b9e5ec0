#include "machined/logs/history/boot-log-recorder.h"

#include <mutex>

#include "common/base/append-only-frames.h"
#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/lines.h"
#include "common/base/within.h"
#include "machined/resources/store-records.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {
namespace {

// The bytes read from the rings for one job.
constexpr size_t kMostAtOnce = 1u << 20;
constexpr size_t kEventsAtOnce = 64;
// A disk that takes longer counts as hanging: the boot, the shutdown and a new brain continue
// without it.
constexpr auto kDiskTimeout = 10 * kj::SECONDS;
constexpr auto kReadTimeout = 60 * kj::SECONDS;  // for a client, as for files
constexpr kj::StringPtr kClosed = "the node is shutting down, and its STATE is closed"_kj;
constexpr kj::StringPtr kCutOff = "the machine was reset or lost its power"_kj;
constexpr kj::StringPtr kPanic = "kernel panic"_kj;

// Returns the beginning of the line that is `count` lines before the end.
size_t tailOf(kj::StringPtr text, int count) {
  if (count < 0) return 0;
  size_t at = text.size();
  for (int left = count; at > 0; --at) {
    if (at < text.size() && text[at - 1] == '\n' && left-- <= 1) break;
    if (count == 0) return text.size();
  }
  return at;
}

// Called before this boot counts as begun, so a brain that crashes meanwhile leaves the work to the
// next one. A crash log of a boot without a record goes to this boot's record, so that the next
// boot does not find it.
void recordPreviousBoot(BootStore& store, kj::Maybe<const BootSummary&> before, kj::StringPtr own,
                        kj::StringPtr pstore) {
  auto crash = readKernelCrashLog(pstore);
  kj::StringPtr id = own;
  KJ_IF_MAYBE (b, before) {
    id = b->id;
    if (b->reason.size() == 0) store.noteOf(id, "reason", crash.panic ? kPanic : kCutOff);
  }
  // A brain that crashed before forget() may have stored the crash log already.
  if (crash.text.size() > 0 && store.read(id, kKernelCrashSource) == nullptr) {
    store.appendTo(id, kKernelCrashSource, crash.text);
  }
  forget(crash);
}

}  // namespace

struct BootRecorder::Shared {
  Shared(kj::StringPtr folder) : store(kj::heap<BootStore>(folder)) {}
  std::mutex mutex;
  kj::Maybe<kj::Own<BootStore>> store;  // nullptr: the files are closed

  BootStore& get() {
    KJ_IF_MAYBE (s, store) return **s;
    fail(ErrorKind::kUnavailable, kClosed);
  }
};

struct BootRecorder::Piece {
  kj::String source;
  uint64_t position;
  kj::Array<char> bytes;
};

BootRecorder::BootRecorder(Dependencies d)
    : deps(kj::mv(d)),
      shared(std::make_shared<Shared>(deps.folder)),
      issued(
          deps.uv, deps.timer, deps.store, [this](kj::StringPtr line) { deps.say(line); },
          deps.issuedFile) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  stop = kj::mv(paf.fulfiller);
  stopped = paf.promise.fork();
}
BootRecorder::~BootRecorder() noexcept(false) {}

// Reports each cause once, because writing is retried every two seconds.
void BootRecorder::complain(kj::Exception&& e) {
  auto line = kj::str("warning: cannot keep the record of this boot: ", messageOf(e), "; retrying");
  if (line == lastReported) return;
  deps.say(line);
  lastReported = kj::mv(line);
}

template <typename F>
auto BootRecorder::job(F&& work) {
  return deps.uv.blocking([shared = shared, work = kj::fwd<F>(work)]() mutable {
    std::lock_guard<std::mutex> lock(shared->mutex);
    return work(shared->get());
  });
}

// --- writing ---

kj::Promise<void> BootRecorder::begin(bool kept) {
  if (decided) co_return;
  decided = true;
  if (!kept) {
    deps.say("no STATE: the logs and events of this boot will be lost with a reboot");
    co_return;
  }
  recording = true;
  auto opened = kj::newPromiseAndFulfiller<void>();
  regularly = recordOn(kj::mv(opened.fulfiller)).eagerlyEvaluate(nullptr);
  co_await within(deps.timer, kDiskTimeout, kj::mv(opened.promise),
                  kj::str("opening it timed out after ", kDiskTimeout / kj::SECONDS, " s"))
      .catch_([this](kj::Exception&& e) { complain(kj::mv(e)); });
}

kj::Promise<void> BootRecorder::first() {
  struct Found {
    kj::Vector<BootSummary> boots;
    kj::Maybe<kj::String> problem;  // a problem with the previous boot
  };
  auto found = co_await job([bootId = kj::str(deps.bootId), version = kj::str(deps.version),
                             now = dateText(deps.clock.now()),
                             pstore = kj::str(deps.pstore)](BootStore& store) {
    store.begin(bootId);
    Found found{store.list(), nullptr};
    kj::Maybe<const BootSummary&> own, before;
    for (auto& boot : found.boots) {
      if (boot.id == bootId) {
        own = boot;
        break;
      }
      before = boot;
    }
    KJ_IF_MAYBE (o, own) {
      if (o->began.size() > 0) return found;  // a new brain
    }
    KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                        [&]() { recordPreviousBoot(store, before, bootId, pstore); })) {
      found.problem = kj::str("cannot complete the record of the boot before: ", messageOf(*e));
    }
    store.note("began", now);
    store.note("version", version);
    store.sync();
    found.boots = store.list();
    return found;
  });
  begun = true;
  KJ_IF_MAYBE (p, found.problem) deps.say(kj::str("warning: ", *p));
  publish(found.boots);
}

void BootRecorder::publish(kj::ArrayPtr<const BootSummary> boots) {
  for (auto& boot : boots) {
    putRecord<rpc::BootRecordSpec>(deps.store, boot.id, [&](rpc::BootRecordSpec::Builder spec) {
      bool current = boot.id == deps.bootId;
      spec.setNumber(boot.number);
      spec.setBegan(boot.began);
      spec.setEnded(current ? kj::StringPtr() : boot.ended.asPtr());
      spec.setReason(boot.reason);
      spec.setVersion(boot.version);
    });
  }
}

kj::Promise<void> BootRecorder::recordOn(kj::Own<kj::PromiseFulfiller<void>> opened) {
  co_await first().catch_([this](kj::Exception&& e) { complain(kj::mv(e)); });
  co_await issued.begin();
  co_await deps.opened();
  opened->fulfill();
  for (;;) {
    bool last = ending, more = false;
    kj::Maybe<kj::Exception> failure;
    try {
      if (!begun) co_await first();
      more = co_await flush();
      lastReported = kj::String();
    } catch (...) {
      failure = kj::getCaughtExceptionAsKj();
    }
    KJ_IF_MAYBE (e, failure) {
      cursors.clear();  // some of it may be on the disk, so the positions there count
      complain(kj::mv(*e));
    }
    if (more) continue;
    if (last) co_return;
    co_await deps.timer.afterDelay(kRecordPause).exclusiveJoin(stopped.addBranch());
  }
}

kj::Vector<kj::String> BootRecorder::sources() const {
  auto all = deps.logs.ids();
  all.add(kj::str(kEventsSource));
  return all;
}

kj::Maybe<const LogRing&> BootRecorder::ringOf(kj::StringPtr source) const {
  if (source == kEventsSource) return deps.events.lines();
  return deps.logs.ring(source);
}

// Gets the end positions of the files of sources that have no cursor yet.
kj::Promise<void> BootRecorder::findCursors() {
  kj::Vector<kj::String> unknown;
  for (auto& source : sources()) {
    if (cursors.find(source) == nullptr) unknown.add(kj::mv(source));
  }
  if (unknown.empty()) co_return;
  auto names = KJ_MAP(name, unknown) {
    return kj::str(name);
  };
  auto positions = co_await job([names = kj::mv(names)](BootStore& store) {
    auto positions = kj::heapArrayBuilder<uint64_t>(names.size());
    for (auto& name : names) positions.add(store.position(name));
    return positions.finish();
  });
  for (auto i : kj::indices(unknown)) {
    cursors.upsert(kj::mv(unknown[i]), uint64_t{positions[i]}, [](auto&, auto&&) {});
  }
}

kj::Vector<BootRecorder::Piece> BootRecorder::collect() {
  kj::Vector<Piece> pieces;
  size_t total = 0;
  for (auto& entry : cursors) {
    KJ_IF_MAYBE (ring, ringOf(entry.key)) {
      auto newest = ring->newest();
      auto at = entry.value > newest ? 0 : entry.value;  // the ring was damaged, and was replaced
      // Lines that the files would drop again need not be written.
      if (newest > kMostOfLargeSource) at = kj::max(at, newest - kMostOfLargeSource);
      at = kj::max(at, ring->oldest());
      if (at < newest) at = ring->lineAt(at);
      while (at < newest && total < kMostAtOnce) {
        auto next = ring->chunkEnd(at, kMostPiece, newest);
        auto bytes = kj::heapArray<char>(next - at);
        ring->copy(at, bytes);
        total += bytes.size();
        pieces.add(Piece{kj::str(entry.key), next, kj::mv(bytes)});
        at = next;
      }
    }
  }
  return pieces;
}

// Returns true if there is more, as after a long time without a disk.
kj::Promise<bool> BootRecorder::flush() {
  co_await findCursors();
  auto pieces = collect();
  if (pieces.empty()) co_return false;
  size_t total = 0;
  struct Place {
    kj::String source;
    uint64_t position;
  };
  kj::Vector<Place> places;
  for (auto& piece : pieces) {
    total += piece.bytes.size();
    places.add(Place{kj::str(piece.source), piece.position});
  }
  co_await job([pieces = kj::mv(pieces)](BootStore& store) {
    for (auto& piece : pieces) store.append(piece.source, piece.position, piece.bytes);
    store.sync();
  });
  for (auto& place : places) {
    KJ_IF_MAYBE (cursor, cursors.find(place.source)) *cursor = place.position;
  }
  co_return total >= kMostAtOnce;
}

kj::Promise<void> BootRecorder::reason(kj::String problem) {
  if (!recording) co_return;
  auto boots = co_await job([problem = kj::mv(problem)](BootStore& store) {
    store.note("reason", problem);
    store.sync();
    return store.list();
  });
  publish(boots);
}

kj::Promise<void> BootRecorder::end() {
  if (!recording) co_return;
  recording = false;
  ending = true;
  stop->fulfill();
  co_await within(deps.timer, kDiskTimeout, writeLast(),
                  kj::str("writing it timed out after ", kDiskTimeout / kj::SECONDS, " s"))
      .catch_([this](kj::Exception&& e) {
        deps.say(kj::str("warning: cannot keep the end of this boot: ", messageOf(e)));
      });
}

kj::Promise<void> BootRecorder::writeLast() {
  co_await kj::mv(regularly);
  co_await issued.end();
  co_await deps.uv.blocking([shared = shared]() {
    std::lock_guard<std::mutex> lock(shared->mutex);
    shared->store = nullptr;
  });
}

// --- reading ---

kj::Promise<kj::String> BootRecorder::textOf(ReadPool::Client pool, kj::String boot,
                                             kj::String source) {
  if (!decided) fail(ErrorKind::kUnavailable, "STATE is not mounted yet; retry");
  if (ending) fail(ErrorKind::kUnavailable, kClosed);
  if (!recording) {
    fail(ErrorKind::kFailedPrecondition, "there is no STATE, so no earlier boot is recorded");
  }
  constexpr kj::StringPtr kDoing = "reading the records of earlier boots"_kj;
  // Not in the queue of the writing jobs: the files do not change, and a disk that blocks a writer
  // must not block each reader as well.
  auto reading = pool.run(kDoing, [folder = kj::str(deps.folder), boot = kj::mv(boot),
                                   source = kj::mv(source), own = kj::str(deps.bootId)]() {
    BootStore store(folder);
    kj::String wanted = kj::str(boot);
    kj::Vector<kj::String> known;
    for (auto& summary : store.list()) {
      if (summary.id == own) break;
      if (boot.size() == 0) wanted = kj::str(summary.id);
      known.add(kj::mv(summary.id));
    }
    if (wanted.size() == 0) fail(ErrorKind::kNotFound, "no earlier boot is recorded");
    KJ_IF_MAYBE (text, store.read(wanted, source)) return kj::heapString(text->asPtr());
    if (store.read(wanted, kBootSource) == nullptr) {
      fail(ErrorKind::kNotFound,
           kj::str("unknown boot \"", wanted, "\"; use one of ", kj::strArray(known, ", ")));
    }
    fail(ErrorKind::kNotFound, kj::str("unknown log \"", source, "\" of boot ", wanted,
                                       "; use one of ", kj::strArray(store.sources(wanted), ", ")));
  });
  return within(deps.timer, kReadTimeout, kj::mv(reading),
                kj::str(kDoing, " timed out after ", kReadTimeout / kj::SECONDS, " s"));
}

kj::Promise<void> BootRecorder::readLog(ReadPool::Client pool, kj::String id, kj::String boot,
                                        int tailLines, rpc::LogSink::Client sink,
                                        kj::String contains) {
  if (id == kBootSource || id == kEventsSource) {
    fail(ErrorKind::kNotFound, kj::str("unknown log \"", id, "\""));
  }
  auto text = co_await textOf(pool, kj::mv(boot), kj::mv(id));
  if (contains.size() > 0) text = kj::heapString(linesContaining(text, contains));
  for (size_t at = tailOf(text, tailLines); at < text.size();) {
    size_t end = kj::min(at + kMostPiece, text.size());
    while (end < text.size() && end > at && text[end - 1] != '\n') --end;
    if (end == at) end = kj::min(at + kMostPiece, text.size());
    auto request = sink.writeRequest();
    request.setBytes(text.slice(at, end).asBytes());
    request.setNext(end);
    at = end;
    co_await request.send();
  }
}

kj::Promise<void> BootRecorder::readEvents(ReadPool::Client pool, kj::String boot,
                                           rpc::EventSink::Client sink) {
  auto text = co_await textOf(pool, kj::mv(boot), kj::str(kEventsSource));
  kj::Vector<kj::ArrayPtr<const char>> lines;
  for (auto line : Lines(text)) {
    if (decodeEvent(line, [](auto) {})) lines.add(line);
  }
  for (size_t at = 0; at < lines.size();) {
    auto count = kj::min(lines.size() - at, kEventsAtOnce);
    auto request = sink.eventsRequest();
    auto list = request.initEvents(count);
    for (auto i : kj::zeroTo(count)) {
      decodeEvent(lines[at + i], [&](rpc::Event::Reader event) { list.setWithCaveats(i, event); });
    }
    at += count;
    co_await request.send();
  }
}

}  // namespace talos::machined
