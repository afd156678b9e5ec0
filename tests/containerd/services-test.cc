// Containers as services and as pods, under the real process 1, supervisor, containerd and runc, of
// which each is killed at some time.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "common/wire/rpc-server.h"
#include "machined/services/containers/containerd-connection.h"
#include "rpc/node.capnp.h"
#include "tests/containerd/container-testbed.h"
#include "tests/containerd/containerd-fixture.h"
#include "tests/containerd/cri-pods.pb.h"

namespace talos::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

namespace pods = ::runtime::test;

constexpr double kTimeout = 60;

class Text final : public rpc::LogSink::Server {
 public:
  explicit Text(std::shared_ptr<std::string> text) : text(kj::mv(text)) {}
  kj::Promise<void> write(WriteContext context) override {
    auto bytes = context.getParams().getBytes().asChars();
    text->append(bytes.begin(), bytes.size());
    return kj::READY_NOW;
  }
  kj::Promise<void> missed(MissedContext) override {
    *text += "(missed)\n";
    return kj::READY_NOW;
  }

 private:
  std::shared_ptr<std::string> text;
};

// The numbered lines of the sample program.
struct Lines {
  int count = 0;      // up to the newest
  int gaps = 0;       // places where some are missing
  std::string wrong;  // first line that is a duplicate or has another form
  int wrongs = 0;
  bool ended = false;
};
Lines linesOf(const std::string& text) {
  constexpr std::string_view kLine = "line ";
  Lines result;
  for (auto& line : harness::lines(text)) {
    if (line == "ended") {
      result.ended = true;
      continue;
    }
    int number = line.starts_with(kLine) ? atoi(line.c_str() + kLine.size()) : -1;
    bool wrong = number < result.count;
    if (wrong && result.wrong.empty()) result.wrong = line;
    result.wrongs += wrong;
    result.gaps += number > result.count;
    result.count = std::max(result.count, number + 1);
  }
  return result;
}

class ServicesTest : public ContainerdTest {
 public:
  ~ServicesTest() noexcept override {}

 protected:
  std::optional<ModelRegistry> registry;
  std::optional<ContainerTestbed> testbed;
  // Created after all forks of this process.
  std::optional<kj::AsyncIoContext> io;
  kj::Maybe<rpc::Node::Client> client;
  std::optional<machined::Containerd> containerd;
  std::string prefix = "sample-" + std::to_string(getpid()) + "-";

  std::string id(int number) { return prefix + std::to_string(number); }
  void mirror(const std::string& url, const std::string& host = "'*'") {
    configure("    mirrors:\n      " + host + ": {endpoints: [\"" + url + "\"]}",
              machined::ownOomScores());
  }
  void openRegistry() {
    registry.emplace(ModelRegistry::Options{.layer = layer(), .entrypoint = "/sample"});
    mirror(registry->url());
  }
  void begin(int count) {
    openRegistry();
    begin(std::vector<std::string>(count, "example.com/sample:1"));
  }
  void begin(const std::vector<std::string>& images) {
    base();
    std::vector<ContainerTestbed::Service> services;
    for (auto& image : images) services.push_back({id(int(services.size())), image});
    testbed.emplace(getenv("WORLD_BRAIN"), folder.cStr(), services);
    testbed->podCgroup = prefix + "pods";
    io.emplace(kj::setupAsyncIo());
    client = reconnecting(*io->lowLevelProvider, timer(), kj::str(path("node").c_str()))
                 .castAs<rpc::Node>();
    containerd.emplace(*io->lowLevelProvider, timer(), kj::str(path("socket").c_str()));
  }
  void TearDown() override {
    if (HasFailure())
      printf("%s%s", harness::slurp(path("events")).c_str(), testbed->console().c_str());
    containerd.reset();
    client = nullptr;
    io.reset();
    testbed.reset();
    ContainerdTest::TearDown();
  }
  kj::Timer& timer() { return io->provider->getTimer(); }
  rpc::Node::Client& node() { return KJ_ASSERT_NONNULL(client); }

  // --- what the supervisor tells ---

  std::vector<std::string> events(const std::string& service) {
    std::vector<std::string> result;
    for (auto& line : harness::lines(harness::slurp(path("events")))) {
      if (line.starts_with(service + " ")) result.push_back(line.substr(service.size() + 1));
    }
    return result;
  }
  size_t count(const std::string& service, const std::string& part) {
    size_t n = 0;
    for (auto& line : events(service)) n += harness::contains(line, part);
    return n;
  }
  void await(const std::string& service, const std::string& part, size_t times = 1) {
    ASSERT_TRUE(
        harness::eventually([&]() { return count(service, part) >= times; }, kTimeout, 0.02))
        << service << ": " << part;
  }

  // --- what a client sees ---

  struct Seen {
    std::string status, image;
    int pid;
  };
  std::map<std::string, Seen> tryList(bool kubernetes) {
    std::map<std::string, Seen> result;
    auto request = node().containersRequest().send().getContainers().listRequest();
    request.setKubernetes(kubernetes);
    auto failed = kj::runCatchingExceptions([&]() {
      auto answer = timer().timeoutAfter(10 * kj::SECONDS, request.send()).wait(io->waitScope);
      for (auto c : answer.getContainers()) {
        result[c.getId().cStr()] = {c.getStatus().cStr(), c.getImage().cStr(), int(c.getPid())};
      }
    });
    return result;
  }
  std::map<std::string, Seen> list(bool kubernetes, size_t wanted) {
    std::map<std::string, Seen> result;
    EXPECT_TRUE(harness::eventually(
        [&]() {
          result = tryList(kubernetes);
          return result.size() == wanted;
        },
        kTimeout))
        << result.size();
    return result;
  }
  // A brain that hangs must not make the test wait forever.
  template <typename T>
  T soon(kj::Promise<T> promise) {
    return timer()
        .timeoutAfter(static_cast<uint64_t>(kTimeout) * kj::SECONDS, kj::mv(promise))
        .wait(io->waitScope);
  }
  template <typename Request>
  std::string textOf(Request request) {
    auto text = std::make_shared<std::string>();
    request.setSink(kj::heap<Text>(text));
    auto failed = kj::runCatchingExceptions(
        [&]() { timer().timeoutAfter(10 * kj::SECONDS, request.send()).wait(io->waitScope); });
    return failed == nullptr ? *text : "";
  }
  std::string log(const std::string& service) {
    auto request = node().logsRequest().send().getLogs().readRequest();
    request.setId(service.c_str());
    return textOf(kj::mv(request));
  }
  // Returns the log without the prefix that the CRI puts before each line.
  std::string podLog(const std::string& name) {
    auto request = node().containersRequest().send().getContainers().logsRequest();
    request.setId(name.c_str());
    std::string text;
    for (auto& line : harness::lines(textOf(kj::mv(request)))) {
      auto at = line.find(" stdout F ");
      text += at == std::string::npos ? line + "\n" : line.substr(at + 10) + "\n";
    }
    return text;
  }

  bool restarts(const std::string& service) {
    auto request = node().servicesRequest().send().getServices().restartRequest();
    request.setId(service.c_str());
    return kj::runCatchingExceptions([&]() {
             timer().timeoutAfter(10 * kj::SECONDS, request.send()).wait(io->waitScope);
           }) == nullptr;
  }
  // Returns the processes in the service's cgroup, on this machine: the container's, and a runc
  // that is about to become one of them.
  std::set<int> processesOf(const std::string& service) {
    std::set<int> result;
    for (int pid : harness::processesWith("sample")) {
      auto proc = "/proc/" + std::to_string(pid);
      if (harness::contains(harness::slurp(proc + "/cgroup"), service)) result.insert(pid);
    }
    return result;
  }
  // The supervisor has it as running, containerd has it, and there is one process.
  bool runsOnce(const std::string& service) {
    int pid = -1;
    bool running = false;
    auto failed = kj::runCatchingExceptions([&]() {
      auto answer =
          timer()
              .timeoutAfter(10 * kj::SECONDS,
                            node().servicesRequest().send().getServices().listRequest().send())
              .wait(io->waitScope);
      for (auto s : answer.getServices()) {
        if (s.getId() != service.c_str()) continue;
        pid = s.getPid();
        running = s.getState() == rpc::ServiceState::RUNNING &&
                  harness::contains(s.getEvents()[s.getEvents().size() - 1].getMessage().cStr(),
                                    " task " + service);
      }
    });
    auto there = tryList(false);
    return running && there[service].status == "RUNNING" && there[service].pid == pid &&
           processesOf(service).size() == 1;
  }

  // --- what a kubelet does ---

  template <typename Response>
  Response cri(kj::StringPtr method, const google::protobuf::MessageLite& request) {
    return containerd
        ->call<Response>(kj::str("/runtime.v1.RuntimeService/", method), machined::kPodNamespace,
                         request, 30 * kj::SECONDS)
        .wait(io->waitScope);
  }
  // A pod in the node's network with a container "main"; "default/NAME:main".
  std::string startPod(const std::string& name) {
    constexpr int kNodeNetwork = 2;
    pods::RunPodSandboxRequest run;
    auto& config = *run.mutable_config();
    config.mutable_metadata()->set_name(name);
    config.mutable_metadata()->set_uid(name);
    config.mutable_metadata()->set_namespace_("default");
    config.set_log_directory(path("pods/" + name));
    config.mutable_linux()->set_cgroup_parent("/system/" + testbed->podCgroup);
    config.mutable_linux()->mutable_security_context()->mutable_namespace_options()->set_network(
        kNodeNetwork);
    pods::CreateContainerRequest create;
    create.set_pod_sandbox_id(
        cri<pods::RunPodSandboxResponse>("RunPodSandbox", run).pod_sandbox_id());
    create.mutable_config()->mutable_metadata()->set_name("main");
    create.mutable_config()->mutable_image()->set_image("example.com/sample:1");
    create.mutable_config()->set_log_path("main.log");
    *create.mutable_sandbox_config() = config;
    pods::StartContainerRequest start;
    start.set_container_id(
        cri<pods::CreateContainerResponse>("CreateContainer", create).container_id());
    cri<pods::StartContainerResponse>("StartContainer", start);
    return "default/" + name + ":main";
  }
};

// Catches: events with other words than in the documents, output that is lost, a container that is
// not restarted or not ended, a runtime that is stopped before the services that need it.
TEST_F(ServicesTest, AContainerIsAServiceLikeAnyOther) {
  begin(2);
  await(id(0), "Started task");
  auto there = list(false, 2);
  auto pid = std::to_string(there[id(0)].pid);
  EXPECT_THAT(
      events(id(0)),
      ElementsAre("Initialized Service loaded", "Waiting Waiting for service \"cri\" to be \"up\"",
                  "Preparing Running pre state", "Preparing Creating service runner",
                  "Running Started task " + id(0) + " (PID " + pid + ") for container " + id(0)));
  ASSERT_TRUE(harness::eventually([&]() { return linesOf(log(id(0))).count > 10; }, kTimeout));
  auto request = node().containersRequest().send().getContainers().restartRequest();
  request.setId(id(0).c_str());
  soon(request.send());
  await(id(0), "Started task", 2);
  EXPECT_THAT(events(id(0)), Contains("Waiting Task " + id(0) + " (PID " + pid +
                                      ") exited with status 7; restarting"));
  auto goesOn = [&]() { return harness::contains(log(id(0)), "ended\nline 0\n"); };
  EXPECT_TRUE(harness::eventually(goesOn, kTimeout)) << "its second process writes below its first";
  auto kill = node().servicesRequest().send().getServices().killRequest();
  kill.setId(id(0).c_str());
  kill.setSignal(SIGKILL);
  soon(kill.send());
  await(id(0), "Started task", 3);
  EXPECT_THAT(events(id(0)), Contains(HasSubstr(" killed by signal 9 (Killed); restarting")));
  auto stop = node().servicesRequest().send().getServices().stopRequest();
  stop.setId(id(1).c_str());
  soon(stop.send());
  EXPECT_THAT(events(id(1)).back(), HasSubstr("Finished Service stopped: Task " + id(1)));
  EXPECT_THAT(list(false, 1), SizeIs(1)) << "nothing is left of a stopped one";
  EXPECT_TRUE(harness::eventually([&]() { return linesOf(log(id(1))).ended; }, kTimeout))
      << "it had its SIGTERM";
  ASSERT_TRUE(testbed->powerOff(kTimeout));
  auto all = harness::lines(harness::slurp(path("events")));
  EXPECT_THAT(all.back(), StartsWith("cri Finished"));
  EXPECT_THAT(events(id(0)).back(), StartsWith("Finished"));
}

// Catches: a pull whose failures are not shown, that is given up although it may work later, or
// that is retried although it cannot work; mirrors that count only after a restart.
TEST_F(ServicesTest, FailedPullsAreShownAndTriedAgain) {
  openRegistry();
  mirror("http://127.0.0.1:1", "example.com");
  auto absent = registry->host() + "/absent/x:1";
  begin({"example.com/sample:1", absent});
  await(id(1), "Failed");
  EXPECT_EQ("Failed Pre state failed: cannot pull \"" + absent +
                "\": the registry has no such image; check the name and the tag",
            events(id(1)).back());
  await(id(0), "; retrying in 5 s");
  EXPECT_THAT(events(id(0)).back(),
              AllOf(StartsWith("Preparing cannot pull \"example.com/sample:1\""),
                    HasSubstr("connection refused")));
  mirror(registry->url());
  await(id(0), "Started task");
}

// Catches: a real pod that is not shown, has no figures or no log, or whose restart restarts
// another container.
TEST_F(ServicesTest, PodsAreSeenAndEnded) {
  begin(1);
  await(id(0), "Started task");
  soon(containerd->serving());
  auto one = startPod("one"), other = startPod("other");
  auto seen = list(true, 4);
  std::vector<std::string> names;
  for (auto& [name, row] : seen) names.push_back(name + " " + row.status + " " + row.image);
  EXPECT_THAT(names, ElementsAre("default/one SANDBOX_READY example.com/sample:1",
                                 "default/one:main CONTAINER_RUNNING example.com/sample:1",
                                 "default/other SANDBOX_READY example.com/sample:1",
                                 "default/other:main CONTAINER_RUNNING example.com/sample:1"));
  for (auto& [name, row] : seen) EXPECT_GT(row.pid, 0) << name;
  ASSERT_TRUE(harness::eventually([&]() { return linesOf(podLog(one)).count > 10; }, kTimeout));
  auto stats = soon(node().containersRequest().send().getContainers().statsRequest().send());
  size_t used = 0;
  for (auto s : stats.getStats()) {
    if (s.getId() != one.c_str() && s.getId() != other.c_str()) continue;
    EXPECT_GT(s.getMemoryUsage(), 0u);
    EXPECT_GT(s.getCpuUsageNs(), 0u);
    ++used;
  }
  EXPECT_EQ(2u, used);
  auto request = node().containersRequest().send().getContainers().restartRequest();
  request.setKubernetes(true);
  request.setId(one.c_str());
  soon(request.send());
  seen = list(true, 4);
  EXPECT_EQ("CONTAINER_EXITED", seen[one].status) << "nobody starts it again here";
  EXPECT_EQ("CONTAINER_RUNNING", seen[other].status);
  EXPECT_TRUE(harness::eventually([&]() { return linesOf(podLog(one)).ended; }, kTimeout))
      << "it had its SIGTERM";
}

// Catches: containers that end with the killed program, or are started beside running ones; a line
// of a service that is lost while no client listens, a line of a pod that comes twice.
TEST_F(ServicesTest, TenContainersOutliveContainerdTheBrainAndBoth) {
  begin(5);
  std::vector<std::string> services, members;
  for (int i = 0; i < 5; ++i) services.push_back(id(i));
  for (auto& service : services) await(service, "Started task");
  soon(containerd->serving());
  for (int i = 0; i < 5; ++i) members.push_back(startPod("pod-" + std::to_string(i)));
  auto pidsOf = [&]() {
    std::map<std::string, int> pids;
    for (auto& [name, seen] : list(false, 5)) pids[name] = seen.pid;
    for (auto& [name, seen] : list(true, 10)) pids[name] = seen.pid;
    return pids;
  };
  auto first = pidsOf();
  EXPECT_THAT(first, SizeIs(15)) << "with the five that hold the pods";
  struct Kill {
    bool containerd, brain;
  };
  size_t brains = 0;
  for (auto [killsContainerd, killsBrain] :
       {Kill{true, false}, Kill{false, true}, Kill{true, true}, Kill{true, true}}) {
    std::map<std::string, int> before;
    for (auto& service : services) before[service] = linesOf(log(service)).count;
    for (auto& member : members) before[member] = linesOf(podLog(member)).count;
    int killed[] = {killsContainerd ? testbed->containerd() : 0, killsBrain ? testbed->brain() : 0};
    for (int pid : killed) {
      if (pid != 0) ASSERT_EQ(0, kill(pid, SIGKILL));
    }
    brains += killsBrain;
    for (auto& service : services) await(service, "Adopted running task", brains);
    std::map<std::string, int> now;
    EXPECT_TRUE(harness::eventually([&]() { return (now = pidsOf()) == first; }, kTimeout))
        << testing::PrintToString(now) << " instead of " << testing::PrintToString(first);
    for (auto& [name, lines] : before) {
      bool isPod = harness::contains(name, "/");
      EXPECT_TRUE(harness::eventually(
          [&]() { return linesOf(isPod ? podLog(name) : log(name)).count > lines + 100; },
          kTimeout))
          << name;
    }
  }
  for (auto& service : services) {
    EXPECT_EQ(1u, count(service, "Started task")) << service;
    Lines lines;
    EXPECT_TRUE(
        harness::eventually([&]() { return (lines = linesOf(log(service))).count > 0; }, kTimeout))
        << service;
    EXPECT_EQ("", lines.wrong) << service;
    EXPECT_EQ(0, lines.gaps) << service;
  }
  // containerd itself writes the logs of pods: the line that it was writing when it was killed is
  // missing or incomplete.
  for (auto& member : members) {
    Lines lines;
    EXPECT_TRUE(harness::eventually([&]() { return (lines = linesOf(podLog(member))).count > 0; },
                                    kTimeout))
        << member;
    EXPECT_LE(lines.wrongs, 3) << member << ": " << lines.wrong;
    EXPECT_LE(lines.gaps, 3) << member << ": more than containerd was killed";
  }
}

// Catches: an interrupted start that becomes a second container, or none, when containerd, the
// brain or both are killed at any moment of the start.
TEST_F(ServicesTest, AStartThatIsInterruptedIsOneStart) {
  begin(3);
  for (int i = 0; i < 3; ++i) await(id(i), "Started task");
  unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::minstd_rand random{seed};
  auto upTo = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  for (int round = 0; round < 12; ++round) {
    for (int i = 0; i < 3; ++i) {
      // A containerd or a brain that was just killed gets the request again.
      ASSERT_TRUE(harness::eventually([&]() { return restarts(id(i)); }, kTimeout));
    }
    timer().afterDelay(upTo(400) * kj::MILLISECONDS).wait(io->waitScope);
    int which = upTo(2);
    auto moment = "round " + std::to_string(round) + " kills " + std::to_string(which);
    for (int pid : {which != 0 ? testbed->containerd() : 0, which != 1 ? testbed->brain() : 0}) {
      if (pid != 0) kill(pid, SIGKILL);
    }
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(harness::eventually([&]() { return runsOnce(id(i)); }, kTimeout))
          << moment << ": " << processesOf(id(i)).size() << " processes of " << id(i);
    }
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace talos::test
