// Event fan-out: 100 watchers over 100 connections, 100 000 events, one watcher stopped in the
// middle of its first call. Two processes: the measured one has the ring and serves, the other one
// watches.
//
// Events are published in bursts of half a ring, each after all running watchers have the burst
// before, so that only the stopped watcher misses any; the figures are deliveries a second and the
// memory of the serving side before the first event and after the last. At the end the stopped
// watcher continues, and the events that it got and those reported to it as missed must be all.
// Prints one JSON object; fails when a promise is broken.
//
// link: machined-logs
#include <capnp/rpc-twoparty.h>
#include <fcntl.h>
#include <kj/async-io.h>
#include <kj/debug.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/file.h"
#include "machined/logs/event-ring.h"
#include "machined/process1/test-process1.h"

namespace talos::machined {
namespace {

constexpr unsigned kWatchers = 100, kEvents = 100'000, kBurst = 500;

struct Outcome {
  uint64_t received, missed, othersMissed;
};

// State of the watching process: the position of the slowest running watcher.
struct Watchers {
  kj::Vector<uint64_t> received;
  uint64_t missedByStopped = 0, missedByOthers = 0, behind = 0;
  uint64_t goal = kBurst;
  bool stopped = true;
  kj::Own<kj::PromiseFulfiller<void>> goOn;
  kj::Own<kj::PromiseFulfiller<void>> complete;
  int progress;  // a byte for each burst that all have

  void count(unsigned watcher, uint64_t events) {
    bool before = received[watcher] < goal;
    received[watcher] += events;
    if (watcher == 0) {
      if (received[0] + missedByStopped == kEvents && complete) complete->fulfill();
      return;
    }
    if (!before || received[watcher] < goal || --behind > 0) return;
    goal += kBurst;
    behind = kWatchers - 1;
    KJ_ASSERT(write(progress, "b", 1) == 1);
  }
};

class Sink final : public rpc::EventSink::Server {
 public:
  Sink(Watchers& watchers, unsigned number) : watchers(watchers), number(number) {}
  kj::Promise<void> events(EventsContext context) override {
    watchers.count(number, context.getParams().getEvents().size());
    if (number != 0 || !watchers.stopped) return kj::READY_NOW;
    auto paf = kj::newPromiseAndFulfiller<void>();
    watchers.goOn = kj::mv(paf.fulfiller);
    return kj::mv(paf.promise);
  }
  kj::Promise<void> missed(MissedContext context) override {
    (number == 0 ? watchers.missedByStopped : watchers.missedByOthers) +=
        context.getParams().getCount();
    watchers.count(number, 0);
    return kj::READY_NOW;
  }

 private:
  Watchers& watchers;
  unsigned number;
};

// Runs the watching process: one watcher is stopped until `resume` says that the last burst is out.
void watch(kj::ArrayPtr<kj::AutoCloseFd> sockets, int progress, int resume, int result) {
  auto io = kj::setupAsyncIo();
  Watchers watchers;
  watchers.received.resize(kWatchers);
  watchers.behind = kWatchers - 1;
  watchers.progress = progress;
  kj::Vector<kj::Own<kj::AsyncIoStream>> streams;
  kj::Vector<kj::Own<capnp::TwoPartyClient>> connections;
  for (unsigned i = 0; i < kWatchers; ++i) {
    streams.add(io.lowLevelProvider->wrapSocketFd(kj::mv(sockets[i])));
    connections.add(kj::heap<capnp::TwoPartyClient>(*streams.back(), kj::heap<Sink>(watchers, i),
                                                    capnp::rpc::twoparty::Side::SERVER));
  }
  auto paf = kj::newPromiseAndFulfiller<void>();
  watchers.complete = kj::mv(paf.fulfiller);
  auto resumed = io.lowLevelProvider->wrapInputFd(kj::AutoCloseFd(resume));
  char byte;
  resumed->read(&byte, 1).wait(io.waitScope);
  watchers.stopped = false;
  watchers.goOn->fulfill();
  paf.promise.wait(io.waitScope);
  Outcome outcome{watchers.received[0], watchers.missedByStopped, watchers.missedByOthers};
  KJ_ASSERT(write(result, &outcome, sizeof(outcome)) == sizeof(outcome));
}

uint64_t residentKiB() {
  auto status = readFile("/proc/self/status");
  auto at = strstr(status.cStr(), "VmRSS:");
  KJ_ASSERT(at != nullptr);
  return strtoull(at + 6, nullptr, 10);
}

double cpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](timeval t) { return t.tv_sec + t.tv_usec / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Ends {
  kj::AutoCloseFd out, in;
  Ends() {
    int fds[2];
    KJ_SYSCALL(pipe2(fds, O_CLOEXEC));
    out = kj::AutoCloseFd(fds[0]);
    in = kj::AutoCloseFd(fds[1]);
  }
};

void serve(kj::ArrayPtr<kj::AutoCloseFd> sockets, Ends& progress, Ends& resume, Ends& result) {
  auto io = kj::setupAsyncIo();
  FakeMachine machine;
  FakeProcess1 process1(machine);
  Events events(kj::systemPreciseCalendarClock(), process1);
  auto bursts = io.lowLevelProvider->wrapInputFd(kj::mv(progress.out));
  auto outcomes = io.lowLevelProvider->wrapInputFd(kj::mv(result.out));
  kj::Vector<kj::Own<kj::AsyncIoStream>> streams;
  kj::Vector<kj::Own<capnp::TwoPartyClient>> connections;
  kj::Vector<kj::Promise<void>> watches;
  capnp::MallocMessageBuilder fromNow;
  auto tail = fromNow.initRoot<rpc::Tail>().asReader();
  for (unsigned i = 0; i < kWatchers; ++i) {
    streams.add(io.lowLevelProvider->wrapSocketFd(kj::mv(sockets[i])));
    connections.add(kj::heap<capnp::TwoPartyClient>(*streams.back()));
    watches.add(events.watch(tail, connections.back()->bootstrap().castAs<rpc::EventSink>())
                    .eagerlyEvaluate(nullptr));
  }
  auto before = residentKiB();
  auto start = kj::systemPreciseMonotonicClock().now();
  auto cpu = cpuSeconds();
  uint64_t early = 0;  // after a tenth: from there on nothing may grow
  for (unsigned i = 0; i < kEvents; i += kBurst) {
    for (unsigned k = 0; k < kBurst; ++k) events.task(kj::str("task ", i + k), rpc::Action::START);
    char byte;
    bursts->read(&byte, 1).wait(io.waitScope);
    if (i == kEvents / 10) early = residentKiB();
  }
  auto seconds = (kj::systemPreciseMonotonicClock().now() - start) / kj::NANOSECONDS / 1e9;
  cpu = cpuSeconds() - cpu;
  auto after = residentKiB();
  KJ_ASSERT(write(resume.in, "r", 1) == 1);
  Outcome outcome;
  outcomes->read(&outcome, sizeof(outcome)).wait(io.waitScope);
  KJ_ASSERT(outcome.received + outcome.missed == kEvents, outcome.received, outcome.missed);
  KJ_ASSERT(outcome.othersMissed == 0, outcome.othersMissed);
  printf(
      "{\"watchers\":%u,\"events\":%u,\"stopped\":1,\"seconds\":%.3f,\"cpuSeconds\":%.3f,"
      "\"deliveriesPerSecond\":%.0f,\"rssBeforeKiB\":%lu,\"rssAfterTenthKiB\":%lu,\"rssAfterKiB\":%"
      "lu,\"grownKiB\":%ld,"
      "\"stoppedReceived\":%lu,\"stoppedMissed\":%lu}\n",
      kWatchers, kEvents, seconds, cpu, (kWatchers - 1) * double(kEvents) / seconds, before, early,
      after, static_cast<long>(after) - static_cast<long>(before), outcome.received,
      outcome.missed);
}

}  // namespace
}  // namespace talos::machined

int main() {
  using namespace talos::machined;
  kj::Vector<kj::AutoCloseFd> ours, theirs;
  for (unsigned i = 0; i < kWatchers; ++i) {
    int fds[2];
    KJ_SYSCALL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
    ours.add(kj::AutoCloseFd(fds[0]));
    theirs.add(kj::AutoCloseFd(fds[1]));
  }
  Ends progress, resume, result;
  auto parent = getpid();
  pid_t child;
  KJ_SYSCALL(child = fork());
  if (child == 0) {
    KJ_SYSCALL(prctl(PR_SET_PDEATHSIG, SIGKILL));
    if (getppid() != parent) return 1;
    ours.clear();
    watch(theirs, progress.in, resume.out.release(), result.in);
    return 0;
  }
  theirs.clear();
  progress.in = nullptr;
  result.in = nullptr;
  serve(ours, progress, resume, result);
  int status;
  KJ_SYSCALL(waitpid(child, &status, 0));
  return status == 0 ? 0 : 1;
}
