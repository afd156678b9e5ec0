#include "tests/disks/disk-server.h"

#include <fcntl.h>
#include <kj/async-io.h>
#include <kj/debug.h>
#include <kj/refcount.h>

#include <future>
#include <map>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/within.h"
#include "tests/disks/file-medium.h"
#include "tests/disks/nbd.h"

namespace talos::disk {
namespace {

constexpr kj::Duration kStartsWithin = 60 * kj::SECONDS;

kj::Maybe<kj::Own<FileMedium>> openMedium(kj::StringPtr file) {
  int fd = open(file.cStr(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  return kj::heap<FileMedium>(kj::AutoCloseFd(fd));
}

// "demo-worker-1" of "/clusters/demo/demo-worker-1.disk": names of machines have no dots.
std::string machineOf(kj::StringPtr file) {
  std::string name(file.cStr());
  name.erase(0, name.rfind('/') + 1);
  return name.substr(0, name.find('.'));
}

// One run of a machine, shared by its sessions. A session that remains from an ended run gets no
// answer any more.
class Run final : public kj::Refcounted {
 public:
  Run() : Run(kj::newPromiseAndFulfiller<void>()) {}

  MachineDisks disks;
  unsigned connections = 0;

  bool serves(kj::StringPtr file) const { return exports.contains(file.cStr()); }
  Export& add(kj::StringPtr file, kj::Own<FileMedium> medium) {
    media.add(medium.get());
    auto& served = disks.add(kj::mv(medium));
    exports.insert({file.cStr(), &served});
    return served;
  }
  void failWritesFrom(uint64_t place) {
    for (auto medium : media) medium->failWritesFrom(place);
  }
  void end() {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                   if (!disks.isOff()) disks.cut(0, 0).detach([](kj::Exception&&) {});
                 })) {
      log::error("cannot cut the power of a machine's disks", {{"error", messageOf(*e)}});
    }
    disks.stopRecording();
    ended->fulfill();
  }
  kj::Promise<void> onEnd() { return end_.addBranch(); }
  // Closes the disks once no session uses them: a recording outlives the run, and the files of a
  // machine that has ended may be removed.
  void close() {
    exports.clear();
    media.clear();
    disks.close();
  }

 private:
  std::map<std::string, Export*> exports;
  kj::Vector<FileMedium*> media;
  kj::Own<kj::PromiseFulfiller<void>> ended;
  kj::ForkedPromise<void> end_;

  explicit Run(kj::PromiseFulfillerPair<void> pair)
      : ended(kj::mv(pair.fulfiller)), end_(pair.promise.fork()) {}
};

}  // namespace

// The part that runs on the server's thread.
class DiskServer::Service final : private kj::TaskSet::ErrorHandler {
 public:
  Service(kj::AsyncIoContext& io, kj::Own<kj::ConnectionReceiver> receiver)
      : timer(io.provider->getTimer()), receiver(kj::mv(receiver)), tasks(*this) {
    tasks.add(accept());
  }

  kj::Promise<Cut> cut(std::string machine, uint64_t atWrite, uint64_t seed, kj::Duration limit) {
    auto run = co_await untilOn(machine, limit);
    co_return co_await within(timer, limit, run->disks.cut(atWrite, seed),
                              kj::str(machine.c_str(), " did not reach write ", atWrite, " within ",
                                      limit / kj::SECONDS, " s; it goes on"));
  }

  kj::Promise<void> record(std::string machine, std::string log, uint64_t limit) {
    auto run = co_await untilOn(machine, kStartsWithin);
    run->disks.record(log.c_str(), limit);
    recorded[log] = kj::mv(run);
  }

  kj::Promise<void> failWritesFrom(std::string machine, uint64_t place) {
    auto run = co_await untilOn(machine, kStartsWithin);
    run->failWritesFrom(place);
  }

  Run& recordedTo(const std::string& log) {
    auto found = recorded.find(log);
    if (found == recorded.end()) fail(ErrorKind::kNotFound, "nothing is recorded to this file");
    return *found->second;
  }

  kj::Promise<void> untilOff(const std::string& machine) {
    auto found = runs.find(machine);
    if (found == runs.end()) return kj::READY_NOW;
    return found->second->onEnd();
  }

 private:
  kj::Timer& timer;
  kj::Own<kj::ConnectionReceiver> receiver;
  std::map<std::string, kj::Own<Run>> runs;      // of the machines that are on
  std::map<std::string, kj::Own<Run>> recorded;  // by their logs
  kj::TaskSet tasks;

  Run& find(const std::string& machine) {
    auto found = runs.find(machine);
    if (found == runs.end()) fail(ErrorKind::kNotFound, kj::str(machine.c_str(), " is off"));
    return *found->second;
  }

  // QEMU opens its disks a moment after `talosctl cluster node start` has answered.
  kj::Promise<kj::Own<Run>> untilOn(std::string machine, kj::Duration limit) {
    for (auto until = timer.now() + limit; !runs.contains(machine) && timer.now() < until;) {
      co_await timer.afterDelay(10 * kj::MILLISECONDS);
    }
    co_return kj::addRef(find(machine));
  }

  kj::Promise<void> accept() {
    for (;;) tasks.add(serve(co_await receiver->accept()));
  }

  kj::Promise<void> serve(kj::Own<kj::AsyncIoStream> client) {
    kj::Maybe<kj::Own<Run>> joined;
    std::string machine;
    KJ_DEFER(KJ_IF_MAYBE (run, joined) leave(machine, **run));
    auto find = [&](kj::StringPtr file) -> kj::Maybe<Export&> {
      auto opened = openMedium(file);
      KJ_IF_MAYBE (medium, opened) {
        machine = machineOf(file);
        auto& run = joined.emplace(kj::addRef(join(machine, file)));
        return run->add(file, kj::mv(*medium));
      }
      return nullptr;
    };
    // A machine whose power was cut gets no answer: its end shows in the socket alone.
    co_await serveNbd(*client, find).exclusiveJoin(client->whenWriteDisconnected());
  }

  Run& join(const std::string& machine, kj::StringPtr file) {
    auto found = runs.find(machine);
    // A run whose machine was just killed, and whose sockets do not show the end yet.
    if (found != runs.end() && found->second->serves(file)) end(machine, *found->second);
    auto& run = runs[machine];
    if (run.get() == nullptr) run = kj::refcounted<Run>();
    ++run->connections;
    return *run;
  }

  void leave(const std::string& machine, Run& run) {
    if (--run.connections > 0) return;
    end(machine, run);
    run.close();
  }

  void end(const std::string& machine, Run& run) {
    auto kept = kj::addRef(run);
    run.end();
    auto found = runs.find(machine);
    if (found != runs.end() && found->second.get() == &run) runs.erase(found);
  }

  void taskFailed(kj::Exception&& e) override {
    log::error("a disk has no client any more", {{"error", messageOf(e)}});
  }
};

struct DiskServer::Running {
  struct Handles {
    const kj::Executor* executor = nullptr;
    Service* service = nullptr;
    kj::Own<kj::CrossThreadPromiseFulfiller<void>> stop;
  };

  explicit Running(const std::string& socket)
      : thread([this, socket] {
          try {
            run(socket);
          } catch (...) {
            started.set_exception(std::current_exception());
          }
        }) {
    handles = started.get_future().get();
  }
  ~Running() noexcept(false) {
    if (handles.stop.get() != nullptr) handles.stop->fulfill();
  }

  template <typename Do>
  auto sync(Do&& perform) {
    return handles.executor->executeSync([&] { return perform(*handles.service); });
  }

 private:
  std::promise<Handles> started;
  Handles handles;
  kj::Thread thread;  // joined first

  void run(const std::string& socket) {
    auto io = kj::setupAsyncIo();
    auto& network = io.provider->getNetwork();
    auto address = network.parseAddress(kj::str("unix:", socket.c_str())).wait(io.waitScope);
    Service service(io, address->listen());
    auto stop = kj::newPromiseAndCrossThreadFulfiller<void>();
    started.set_value({.executor = &kj::getCurrentThreadExecutor(),
                       .service = &service,
                       .stop = kj::mv(stop.fulfiller)});
    stop.promise.wait(io.waitScope);
  }
};

DiskServer::DiskServer(const std::string& socket)
    : path(socket), running(kj::heap<Running>(socket)) {}
DiskServer::~DiskServer() noexcept(false) = default;

Cut DiskServer::cut(const std::string& machine, uint64_t atWrite, uint64_t seed,
                    double withinSeconds) {
  auto limit = static_cast<int64_t>(withinSeconds * 1000) * kj::MILLISECONDS;
  return running->sync(
      [&](Service& service) { return service.cut(machine, atWrite, seed, limit); });
}

void DiskServer::record(const std::string& machine, const std::string& log, uint64_t limit) {
  running->sync([&](Service& service) { return service.record(machine, log, limit); });
}

MachineDisks::Recording DiskServer::recording(const std::string& log) {
  return running->sync([&](Service& service) { return service.recordedTo(log).disks.recording(); });
}

void DiskServer::stopRecording(const std::string& log) {
  running->sync([&](Service& service) { service.recordedTo(log).disks.stopRecording(); });
}

void DiskServer::failWritesFrom(const std::string& machine, uint64_t place) {
  running->sync([&](Service& service) { return service.failWritesFrom(machine, place); });
}

void DiskServer::waitUntilOff(const std::string& machine) {
  running->sync([&](Service& service) { return service.untilOff(machine); });
}

}  // namespace talos::disk
