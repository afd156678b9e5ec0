// The networks of pods, through the node's servers of files and sockets, with processes as pods.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/testing/provided.h"
#include "common/wire/pod-networks.h"
#include "machined/api/files-server.h"
#include "machined/api/socket-table.h"

namespace talos::machined {
namespace {

constexpr uint16_t kPort = 4711;

// A child in a separate network namespace, where it listens.
class PodProcess {
 public:
  PodProcess() {
    int ready[2];
    KJ_SYSCALL(pipe(ready));
    KJ_SYSCALL(pid = fork());
    if (pid == 0) {
      sockaddr_in name{};
      name.sin_family = AF_INET, name.sin_port = htons(kPort);
      bool works = unshare(CLONE_NEWNET) == 0;
      int fd = socket(AF_INET, SOCK_STREAM, 0);
      works = works && bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0;
      works = works && listen(fd, 1) == 0 && write(ready[1], "x", 1) == 1;
      if (!works) _exit(1);
      for (;;) pause();
    }
    close(ready[1]);
    char c;
    EXPECT_EQ(::read(ready[0], &c, 1), 1) << "these tests need root";
    close(ready[0]);
  }
  ~PodProcess() {
    kill();
    waitpid(pid, nullptr, 0);
  }
  KJ_DISALLOW_COPY_AND_MOVE(PodProcess);

  // The child stays a zombie until the destructor.
  void kill() {
    ::kill(pid, SIGKILL);
    siginfo_t info;
    waitid(P_PID, pid, &info, WEXITED | WNOWAIT);
  }
  int pid = -1;
};

class TwoPods final : public rpc::Containers::Server {
 public:
  explicit TwoPods(int process) : process(process) {}
  kj::Promise<void> list(ListContext context) override {
    auto pods = context.getResults().initContainers(2);
    auto fill = [](auto pod, auto id, int process) {
      pod.setId(id), pod.setPodId(id), pod.setPid(process);
    };
    fill(pods[0], "default/web", process);
    fill(pods[1], "kube-system/kube-proxy", getpid());
    return kj::READY_NOW;
  }

 private:
  int process;
};

class RealSockets final : public rpc::Machine::Server {
 public:
  kj::Promise<void> netstat(NetstatContext context) override {
    auto facts = readSockets("/proc", context.getParams().getProcess(), getpid(), 1000);
    auto sockets = context.getResults().initSockets(facts.sockets.size());
    for (auto i : kj::indices(facts.sockets)) {
      sockets[i].setLocalPort(facts.sockets[i].localPort);
      sockets[i].setPid(facts.sockets[i].pid);
    }
    return kj::READY_NOW;
  }
};

class NodeOfPods final : public rpc::Node::Server {
 public:
  NodeOfPods(rpc::Files::Client realFiles, int process) : real(kj::mv(realFiles)), pod(process) {}
  kj::Promise<void> containers(ContainersContext context) override {
    context.getResults().setContainers(kj::heap<TwoPods>(pod));
    return kj::READY_NOW;
  }
  kj::Promise<void> files(FilesContext context) override {
    context.getResults().setFiles(real);
    return kj::READY_NOW;
  }
  kj::Promise<void> machine(MachineContext context) override {
    context.getResults().setMachine(kj::heap<RealSockets>());
    return kj::READY_NOW;
  }

 private:
  rpc::Files::Client real;
  int pod;
};

// Catches: namespaces that the node's files do not distinguish, a pod on the node's network that is
// examined, the sockets of another network, a pod that has just exited and fails the call.
TEST(PodNetworksKernel, AreFoundByTheNodesFiles) {
  TALOS_NEEDS(isRootOfTheHost(), "root",
              "without root the namespaces of another process cannot be read");
  PodProcess pod;
  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  ReadPool pool{timer, {}, [](kj::StringPtr) {}};
  rpc::Node::Client node =
      kj::heap<NodeOfPods>(kj::heap<FilesServer>(pool, timer, ClientCalls::alone()), pod.pid);
  auto networks = podNetworks(node).wait(io.waitScope);
  ASSERT_EQ(networks.size(), 1u);
  EXPECT_EQ(networks[0].pod, "default/web");
  auto answer = podSockets(node, networks[0].process).wait(io.waitScope);
  auto sockets = KJ_ASSERT_NONNULL(answer).getSockets();
  ASSERT_EQ(sockets.size(), 1u);
  EXPECT_EQ(sockets[0].getLocalPort(), kPort);
  EXPECT_EQ(sockets[0].getPid(), pod.pid);
  pod.kill();
  EXPECT_EQ(podNetworks(node).wait(io.waitScope).size(), 0u);
}

}  // namespace
}  // namespace talos::machined
