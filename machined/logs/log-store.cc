#include "machined/logs/log-store.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/refcount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/lines.h"
#include "common/base/log.h"
#include "common/base/signal.h"
#include "machined/logs/controller-lines.h"
#include "machined/logs/log-ring.h"

namespace talos::machined {
namespace {

constexpr size_t kTurn = 65536;   // bytes read from one pipe in one turn of the loop
constexpr size_t kChunk = 32768;  // bytes of one call to a follower
constexpr kj::StringPtr kRingPrefix = "log/"_kj;
constexpr kj::StringPtr kPipePrefix = "pipe/"_kj;

struct Pipe {
  kj::AutoCloseFd reading, writing;
  kj::Promise<void> pump = nullptr;
};

struct Log : public kj::Refcounted {
  kj::String id;
  kj::Own<LogRing> ring;
  Signal written;
  kj::Maybe<kj::ForkedPromise<void>> held;  // resolves when process 1 holds the ring and the pipe
  kj::Maybe<kj::Own<Pipe>> pipe;

  Log(kj::String id, kj::Own<LogRing> ring) : id(kj::mv(id)), ring(kj::mv(ring)) {}
};

kj::Own<Pipe> newPipe() {
  int fds[2];
  KJ_SYSCALL(pipe2(fds, O_CLOEXEC));
  auto pipe = kj::heap<Pipe>();
  pipe->reading = kj::AutoCloseFd(fds[0]);
  pipe->writing = kj::AutoCloseFd(fds[1]);
  return pipe;
}

// Returns a pipe from its read end. It also opens a write end, so that the pipe does not end
// whenever its service does.
kj::Own<Pipe> reopenPipe(kj::AutoCloseFd reading) {
  struct stat status;
  KJ_SYSCALL(fstat(reading, &status));
  int flags;
  KJ_SYSCALL(flags = fcntl(reading, F_GETFL));
  if (!S_ISFIFO(status.st_mode) || (flags & O_ACCMODE) == O_WRONLY) {
    fail(ErrorKind::kInternal, "it is not the reading end of a pipe");
  }
  auto pipe = kj::heap<Pipe>();
  int writing;
  KJ_SYSCALL(writing = open(kj::str("/proc/self/fd/", reading.get()).cStr(), O_WRONLY | O_CLOEXEC));
  pipe->writing = kj::AutoCloseFd(writing);
  pipe->reading = kj::mv(reading);
  return pipe;
}

void setNonBlocking(int fd) {
  int flags;
  KJ_SYSCALL(flags = fcntl(fd, F_GETFL));
  KJ_SYSCALL(fcntl(fd, F_SETFL, flags | O_NONBLOCK));
}

// Makes a write that is answered when the sink has processed it and all writes before it: the
// ordinary call of a streaming method returns as soon as the window allows the next one.
kj::Promise<void> writeAndWait(rpc::LogSink::Client& sink, kj::ArrayPtr<const char> lines,
                               uint64_t next) {
  constexpr uint16_t kWrite = 0;  // LogSink.write @0
  auto request = sink.typelessRequest(capnp::typeId<rpc::LogSink>(), kWrite, nullptr, {});
  auto params = request.initAs<rpc::LogSink::WriteParams>();
  params.setBytes(lines.asBytes());
  params.setNext(next);
  return request.send().ignoreResult();
}

kj::Array<char> linesBetween(const LogRing& ring, uint64_t from, uint64_t next) {
  auto lines = kj::heapArray<char>(next - from);
  ring.copy(from, lines);
  return lines;
}

// Uses a timer, not a later turn: the loop checks descriptors and timers only when its queue is
// empty.
kj::Promise<void> yieldToOthers(kj::Timer& timer) {
  return timer.afterDelay(0 * kj::NANOSECONDS);
}

// Returns the position after all but the last `count` lines with the text; takes a turn of the loop
// for each chunk. A log that is overwritten meanwhile has fewer.
kj::Promise<uint64_t> tailContaining(kj::Timer& timer, const LogRing& ring, uint64_t from,
                                     unsigned count, kj::StringPtr contains) {
  const auto stopAt = ring.newest();
  for (size_t matching = 0, skipped = 0, pass = 0;; ++pass) {
    for (auto at = kj::max(from, ring.oldest()); at < stopAt;) {
      auto next = ring.chunkEnd(at, kChunk, stopAt);
      auto chunk = linesBetween(ring, at, next);
      size_t offset = 0;
      for (auto line : Lines(chunk)) {
        bool match = containsText(line, contains);
        if (pass == 0) matching += match;
        if (pass > 0 && match && matching - skipped++ <= count) co_return at + offset;
        offset += line.size() + 1;
      }
      at = kj::max(next, ring.oldest());
      co_await yieldToOthers(timer);
    }
    if (pass > 0 || matching == 0 || count == 0) co_return stopAt;
  }
}

kj::Promise<uint64_t> beginningOf(kj::Timer& timer, const LogRing& ring, const LogQuery& query) {
  if (query.from > 0) co_return query.from > ring.newest() ? 0 : query.from;
  auto oldest = ring.oldest();
  KJ_IF_MAYBE (time, query.since) oldest = ring.since(*time);
  if (query.tailLines < 0) co_return oldest;
  auto count = static_cast<unsigned>(query.tailLines);
  if (query.contains.size() == 0) co_return kj::max(oldest, ring.tail(count));
  co_return co_await tailContaining(timer, ring, oldest, count, query.contains);
}

kj::Promise<void> readLog(kj::Timer& timer, kj::Own<Log> log, LogQuery query,
                          rpc::LogSink::Client sink) {
  auto& ring = *log->ring;
  const bool follow = query.follow;
  const auto stopAt = ring.newest();
  uint64_t cursor = co_await beginningOf(timer, ring, query);
  bool reportMissed = query.from > 0 && cursor > 0;
  for (;;) {
    if (cursor < ring.oldest()) {
      auto missed = ring.oldest() - cursor;
      cursor = ring.oldest();
      if (reportMissed) {
        auto request = sink.missedRequest();
        request.setBytes(missed);
        co_await request.send();
        continue;
      }
    }
    reportMissed = true;
    cursor = ring.lineAt(cursor);
    auto until = follow ? ring.newest() : stopAt;
    if (cursor >= until) {
      if (!follow) co_return;
      co_await log->written.next();
      continue;
    }
    auto next = ring.chunkEnd(cursor, kChunk, until);
    auto lines = linesBetween(ring, cursor, next);
    if (query.contains.size() > 0) lines = linesContaining(lines, query.contains);
    cursor = next;
    if (!follow && next == until) {
      co_await writeAndWait(sink, lines, next);
      co_return;
    }
    if (lines.size() == 0) {
      co_await yieldToOthers(timer);
      continue;
    }
    auto request = sink.writeRequest();
    request.setBytes(lines.asBytes());
    request.setNext(next);
    co_await request.send();
  }
}

}  // namespace

struct Logs::Impl final : private kj::TaskSet::ErrorHandler {
  Impl(Process1& process1, kj::UnixEventPort& port, const kj::MonotonicClock& clock)
      : process1(process1), port(port), clock(clock), tasks(*this) {}
  ~Impl() noexcept(false) {
    for (auto& entry : logs) entry.value->pipe = nullptr;  // a follower may keep the log itself
  }

  Process1& process1;
  kj::UnixEventPort& port;
  const kj::MonotonicClock& clock;
  kj::TreeMap<kj::String, kj::Own<Log>> logs;
  kj::Maybe<kj::Function<void(kj::StringPtr, kj::ArrayPtr<const char>)>> copy;
  Signal changed;
  kj::TaskSet tasks;

  void taskFailed(kj::Exception&& e) override {
    log::error("error in the log store", {{"error", messageOf(e)}});
  }

  void recover() {
    for (auto& name : process1.heldNames()) {
      if (!name.startsWith(kRingPrefix)) continue;
      KJ_IF_MAYBE (fd, process1.takeHeld(name)) {
        KJ_IF_MAYBE (ring, LogRing::recover(kj::mv(*fd), clock)) {
          add(kj::str(name.slice(kRingPrefix.size())), kj::mv(*ring)).held =
              kj::Promise<void>(kj::READY_NOW).fork();
        } else {
          log::error("log is damaged; starting a new one", {{"name", name}});
        }
      }
    }
    for (auto& name : process1.heldNames()) {
      if (!name.startsWith(kPipePrefix)) continue;
      KJ_IF_MAYBE (fd, process1.takeHeld(name)) {
        // If it still has writers, their output is lost; the next start has a new pipe.
        KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                       auto pipe = reopenPipe(kj::mv(*fd));
                       startPump(of(name.slice(kPipePrefix.size())), kj::mv(pipe));
                     })) {
          log::error("pipe of a log is damaged; starting a new one",
                     {{"name", name}, {"error", messageOf(*e)}});
        }
      }
    }
  }

  Log& add(kj::String id, kj::Own<LogRing> ring) {
    auto log = kj::refcounted<Log>(kj::str(id), kj::mv(ring));
    auto& ref = *log;
    logs.insert(kj::mv(id), kj::mv(log));
    changed.raise();
    return ref;
  }

  Log& of(kj::StringPtr id) {
    KJ_IF_MAYBE (log, logs.find(id)) {
      return **log;
    }
    auto& log = add(kj::str(id), kj::heap<LogRing>(clock));
    log.held = process1.hold(kj::str(kRingPrefix, id), log.ring->file()).fork();
    tasks.add(KJ_ASSERT_NONNULL(log.held).addBranch());
    return log;
  }

  void published(Log& log, kj::ArrayPtr<const char> lines) {
    log.written.raise();
    changed.raise();
    KJ_IF_MAYBE (c, copy) {
      (*c)(log.id, lines);
    }
    if (!runsControllers(log.id)) return;
    auto ofControllers = controllerLinesOf(log.id, lines);
    if (ofControllers.size() > 0) append(kControllerLog, ofControllers);
  }

  void append(kj::StringPtr id, kj::ArrayPtr<const char> bytes) {
    auto& log = of(id);
    log.ring->append(bytes, [&](auto lines) { published(log, lines); });
  }

  Pipe& startPump(Log& log, kj::Own<Pipe> pipe) {
    setNonBlocking(pipe->reading);
    pipe->pump = pump(log, *pipe).eagerlyEvaluate([&log](kj::Exception&& e) {
      talos::log::error("cannot read a log pipe", {{"id", log.id}, {"error", messageOf(e)}});
    });
    return *log.pipe.emplace(kj::mv(pipe));
  }

  // Returns true if the pipe is empty now.
  bool readTurn(Log& log, Pipe& pipe) {
    for (size_t got = 0; got < kTurn;) {
      KJ_IF_MAYBE (n, log.ring->readFrom(pipe.reading, kTurn,
                                         [&](auto lines) { published(log, lines); })) {
        if (*n == 0) return true;
        got += *n;
      } else {
        return true;
      }
    }
    return false;
  }

  // The pipe owns it, and the log owns the pipe: both outlive it.
  kj::Promise<void> pump(Log& log, Pipe& pipe) {
    kj::UnixEventPort::FdObserver observer(port, pipe.reading,
                                           kj::UnixEventPort::FdObserver::OBSERVE_READ);
    for (;;) {
      auto readable = observer.whenBecomesReadable();  // before reading: it is edge-triggered
      bool empty = readTurn(log, pipe);
      co_await (empty ? kj::mv(readable) : yieldToOthers(port.getTimer()));
    }
  }

  kj::Promise<kj::AutoCloseFd> writer(kj::StringPtr id) {
    auto& log = of(id);
    if (log.pipe == nullptr) {
      auto& pipe = startPump(log, newPipe());
      auto both = kj::heapArrayBuilder<kj::Promise<void>>(2);
      both.add(KJ_ASSERT_NONNULL(log.held).addBranch());
      both.add(process1.hold(kj::str(kPipePrefix, id), pipe.reading));
      log.held = kj::joinPromises(both.finish()).fork();
    }
    int copy;
    KJ_SYSCALL(copy = fcntl(KJ_ASSERT_NONNULL(log.pipe)->writing, F_DUPFD_CLOEXEC, 3));
    kj::AutoCloseFd fd(copy);
    co_await KJ_ASSERT_NONNULL(log.held).addBranch();
    co_return kj::mv(fd);
  }
};

Logs::Logs(Process1& process1, kj::UnixEventPort& port, const kj::MonotonicClock& clock)
    : impl(kj::heap<Impl>(process1, port, clock)) {
  impl->recover();
}
Logs::~Logs() noexcept(false) {}

void Logs::append(kj::StringPtr id, kj::ArrayPtr<const char> bytes) {
  impl->append(id, bytes);
}

kj::Promise<kj::AutoCloseFd> Logs::writer(kj::StringPtr id) {
  return impl->writer(id);
}

void Logs::tee(kj::Function<void(kj::StringPtr, kj::ArrayPtr<const char>)> copy) {
  impl->copy = kj::mv(copy);
}

kj::Promise<void> Logs::changed() {
  return impl->changed.next();
}

void Logs::readWaiting(kj::StringPtr id) {
  KJ_IF_MAYBE (log, impl->logs.find(id)) {
    KJ_IF_MAYBE (pipe, (*log)->pipe) impl->readTurn(**log, **pipe);
  }
}

kj::Vector<kj::String> Logs::ids() const {
  kj::Vector<kj::String> result;
  for (auto& entry : impl->logs) result.add(kj::str(entry.key));
  return result;
}

kj::Maybe<const LogRing&> Logs::ring(kj::StringPtr id) const {
  KJ_IF_MAYBE (log, impl->logs.find(id)) return *(*log)->ring;
  return nullptr;
}

kj::Promise<void> Logs::read(kj::StringPtr id, LogQuery query, rpc::LogSink::Client sink) {
  KJ_IF_MAYBE (log, impl->logs.find(id)) {
    return readLog(impl->port.getTimer(), kj::addRef(**log), kj::mv(query), kj::mv(sink));
  }
  // Scripts match the end of this text; list() has the ids.
  fail(ErrorKind::kNotFound, kj::str("log \"", id, "\" was not registered"));
}

}  // namespace talos::machined
