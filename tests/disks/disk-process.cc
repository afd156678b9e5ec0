#include "tests/disks/disk-process.h"

#include <capnp/rpc-twoparty.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "rpc/cluster.capnp.h"
#include "talosctl/cluster/processes/child-process.h"
#include "tests/disks/file-medium.h"

namespace talos::disk {
namespace {

constexpr kj::uint kOurs =
    kj::LowLevelAsyncIoProvider::TAKE_OWNERSHIP | kj::LowLevelAsyncIoProvider::ALREADY_CLOEXEC;

struct SocketPair {
  kj::AutoCloseFd ours, theirs;
};

SocketPair makePair() {
  int ends[2];
  KJ_SYSCALL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
  return {kj::AutoCloseFd(ends[0]), kj::AutoCloseFd(ends[1])};
}

// The descriptors keep their numbers.
pid_t start(char* const* argv, kj::ArrayPtr<const int> inherited) {
  pid_t parent = getpid(), child;
  KJ_SYSCALL(child = fork());
  if (child != 0) return child;
  // Only what is safe after fork: plain system calls.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent died before prctl
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int fd : inherited) fcntl(fd, F_SETFD, 0);
  char* environment[] = {nullptr};
  execve("/proc/self/exe", argv, environment);
  _exit(127);
}

Cut fromWire(rpc::PowerCut::Reader cut) {
  return {.atWrite = cut.getAtWrite(),
          .seed = cut.getSeed(),
          .unflushed = cut.getUnflushed(),
          .kept = cut.getKept(),
          .torn = cut.getTorn()};
}

MachineDisks::Recording recordingFromWire(rpc::DiskRecording::Reader in) {
  return {.path = kj::str(in.getFile()),
          .problem = kj::str(in.getProblem()),
          .running = in.getRunning(),
          .events = in.getEvents(),
          .writes = in.getWrites(),
          .bytes = in.getBytes()};
}

class LaunchedDisks final : public DiskProcess {
 public:
  LaunchedDisks(kj::UnixEventPort& port, pid_t pid, kj::AutoCloseFd pidfd,
                kj::Own<kj::AsyncIoStream> stream, kj::Vector<kj::AutoCloseFd> clients)
      : process(port, pid, kj::mv(pidfd)),
        stream(kj::mv(stream)),
        connection(*this->stream),
        power(connection.bootstrap().castAs<rpc::DiskPower>()),
        clients(kj::mv(clients)) {}

  kj::Vector<kj::AutoCloseFd> takeClients() override { return kj::mv(clients); }

  kj::Promise<Cut> cut(uint64_t atWrite, uint64_t seed) override {
    auto request = power.cutRequest();
    request.setAtWrite(atWrite);
    request.setSeed(seed);
    return request.send().then([](auto&& response) { return fromWire(response.getCut()); });
  }

  kj::Promise<Cut> onCut() override {
    return power.onCutRequest().send().then(
        [](auto&& response) { return fromWire(response.getCut()); });
  }

  kj::Promise<MachineDisks::Recording> record(RecordRequest wish) override {
    auto request = power.recordRequest();
    auto out = request.initRequest();
    out.setFile(wish.file);
    out.setLimit(wish.limit);
    out.setStop(wish.stop);
    return request.send().then(
        [](auto&& response) { return recordingFromWire(response.getRecording()); });
  }

  kj::Promise<cluster::Exit> onExit() override { return process.onExit(); }

 private:
  cluster::ChildProcess process;
  kj::Own<kj::AsyncIoStream> stream;
  capnp::TwoPartyClient connection;
  rpc::DiskPower::Client power;
  kj::Vector<kj::AutoCloseFd> clients;
};

class Power final : public rpc::DiskPower::Server {
 public:
  explicit Power(MachineDisks& disks) : disks(disks) {}

  kj::Promise<void> cut(CutContext context) override {
    auto params = context.getParams();
    auto cut = co_await disks.cut(params.getAtWrite(), params.getSeed());
    toWire(cut, context.getResults().initCut());
  }

  kj::Promise<void> onCut(OnCutContext context) override {
    auto cut = co_await disks.onCut();
    toWire(cut, context.getResults().initCut());
  }

  kj::Promise<void> record(RecordContext context) override {
    auto wish = context.getParams().getRequest();
    if (wish.getStop()) disks.stopRecording();
    if (wish.getFile().size() > 0) disks.record(wish.getFile(), wish.getLimit());
    toWire(disks.recording(), context.getResults().initRecording());
    return kj::READY_NOW;
  }

 private:
  MachineDisks& disks;
};

// A client that goes wrong loses its disk; the others stay.
class Clients final : public kj::TaskSet::ErrorHandler {
 public:
  Clients() : tasks(*this) {}
  void add(kj::Own<kj::AsyncIoStream> stream, Export& disk) {
    auto serving = serveNbd(*stream, disk);
    tasks.add(serving.attach(kj::mv(stream)));
  }

 private:
  kj::TaskSet tasks;
  void taskFailed(kj::Exception&& e) override {
    log::error("a disk has no client any more", {{"error", messageOf(e)}});
  }
};

kj::AutoCloseFd inherited(kj::StringPtr word) {
  int fd = word.parseAs<int>();
  KJ_SYSCALL(fcntl(fd, F_SETFD, FD_CLOEXEC), fd);
  return kj::AutoCloseFd(fd);
}

}  // namespace

void toWire(const Cut& cut, rpc::PowerCut::Builder out) {
  out.setAtWrite(cut.atWrite);
  out.setSeed(cut.seed);
  out.setUnflushed(cut.unflushed);
  out.setKept(cut.kept);
  out.setTorn(cut.torn);
}

void toWire(const MachineDisks::Recording& recording, rpc::DiskRecording::Builder out) {
  out.setFile(recording.path);
  out.setRunning(recording.running);
  out.setEvents(recording.events);
  out.setWrites(recording.writes);
  out.setBytes(recording.bytes);
  out.setProblem(recording.problem);
}

RecordRequest fromWire(rpc::RecordRequest::Reader in) {
  return {.file = kj::str(in.getFile()), .limit = in.getLimit(), .stop = in.getStop()};
}

kj::Own<DiskProcess> DiskProcess::launch(kj::UnixEventPort& port,
                                         kj::LowLevelAsyncIoProvider& lowLevel,
                                         kj::StringPtr machine,
                                         kj::ArrayPtr<const kj::AutoCloseFd> files) {
  auto control = makePair();
  kj::Vector<kj::String> words;
  kj::Vector<int> passed;
  auto pass = [&](int fd) {
    passed.add(fd);
    words.add(kj::str(fd));
  };
  for (kj::StringPtr word : {"talosctl"_kj, "cluster-disks"_kj, machine}) words.add(kj::str(word));
  pass(control.theirs);
  kj::Vector<kj::AutoCloseFd> servers, clients;
  for (auto& file : files) {
    auto pair = makePair();
    pass(file);
    pass(pair.ours);
    servers.add(kj::mv(pair.ours));
    clients.add(kj::mv(pair.theirs));
  }
  kj::Vector<char*> argv;
  for (auto& word : words) argv.add(word.begin());
  argv.add(nullptr);
  auto pid = start(argv.begin(), passed);
  int pidfd;
  KJ_SYSCALL(pidfd = syscall(SYS_pidfd_open, pid, 0));
  return kj::heap<LaunchedDisks>(port, pid, kj::AutoCloseFd(pidfd),
                                 lowLevel.wrapSocketFd(control.ours.release(), kOurs),
                                 kj::mv(clients));
}

int runDisks(kj::ArrayPtr<const kj::StringPtr> words) {
  auto io = kj::setupAsyncIo();
  auto wrap = [&](kj::StringPtr word) {
    return io.lowLevelProvider->wrapSocketFd(inherited(word).release(), kOurs);
  };
  KJ_REQUIRE(words.size() >= 2 && words.size() % 2 == 0, "this command is the supervisor's");
  KJ_SYSCALL(signal(SIGXFSZ, SIG_IGN) == SIG_ERR ? -1 : 0);  // the machine hears of the error
  MachineDisks disks;
  Clients clients;
  for (size_t i = 2; i < words.size(); i += 2) {
    clients.add(wrap(words[i + 1]), disks.add(kj::heap<FileMedium>(inherited(words[i]))));
  }
  auto control = wrap(words[1]);
  capnp::TwoPartyClient connection(*control, kj::heap<Power>(disks),
                                   capnp::rpc::twoparty::Side::SERVER);
  connection.onDisconnect().wait(io.waitScope);
  return 0;
}

}  // namespace talos::disk
