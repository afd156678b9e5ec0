// The printed forms, character for character. Rows of the documents are quoted where the documents
// have them.
#include "talosctl/commands/render-answers.h"
#include "talosctl/views/event-row.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

namespace talos::talosctl {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

// A reply of one node, built in place.
template <typename Results>
struct Made {
  capnp::MallocMessageBuilder message;
  typename Results::Builder value = message.initRoot<Results>();
  Reply<Results> from(kj::StringPtr node) { return {node, value.asReader()}; }
};

template <typename Results, typename... Replies>
kj::Array<Reply<Results>> replies(Replies... all) {
  return kj::arr<Reply<Results>>(kj::mv(all)...);
}

void addEvent(rpc::ServiceEvent::Builder event, rpc::ServiceState state, kj::StringPtr message,
              uint64_t secondsAgo, uint64_t now) {
  event.setState(state);
  event.setMessage(message);
  event.setTime(now - secondsAgo * kSecond);
}

void fillKubelet(rpc::Service::Builder kubelet, uint64_t now) {
  using S = rpc::ServiceState;
  kubelet.setId("kubelet");
  kubelet.setState(S::RUNNING);
  kubelet.getHealth().setUnknown(false);
  kubelet.getHealth().setHealthy(true);
  auto events = kubelet.initEvents(8);
  auto cri = "service \"cri\" to be \"up\"", networkd = "service \"networkd\" to be \"up\"",
       timed = "service \"timed\" to be \"up\"";
  addEvent(events[0], S::WAITING, kj::str("Waiting for ", cri, ", ", networkd, ", ", timed), 198,
           now);
  addEvent(events[1], S::WAITING, kj::str("Waiting for ", cri, ", ", timed), 196, now);
  addEvent(events[2], S::WAITING, kj::str("Waiting for ", timed), 195, now);
  addEvent(events[3], S::PREPARING, "Running pre state", 195, now);
  addEvent(events[4], S::PREPARING, "Creating service runner", 186, now);
  addEvent(events[5], S::RUNNING, "Started task kubelet (PID 2334) for container kubelet", 186,
           now);
  addEvent(events[6], S::RUNNING,
           "Health check failed: Get \"http://127.0.0.1:10248/healthz\": dial tcp 127.0.0.1:10248: "
           "connect: "
           "connection refused",
           184, now);
  addEvent(events[7], S::RUNNING, "Health check successful", 174, now);
}

// The documents print exactly this for `service kubelet`.
TEST(Render, ServiceDetail) {
  uint64_t now = 1'615'000'000 * kSecond;
  capnp::MallocMessageBuilder message;
  auto kubelet = message.initRoot<rpc::Service>();
  fillKubelet(kubelet, now);
  EXPECT_EQ(renderService("172.20.0.2", kubelet, now),
            "NODE     172.20.0.2\n"
            "ID       kubelet\n"
            "STATE    Running\n"
            "HEALTH   OK\n"
            "EVENTS   [Running]: Health check successful (2m54s ago)\n"
            "         [Running]: Health check failed: Get \"http://127.0.0.1:10248/healthz\": dial "
            "tcp 127.0.0.1:10248: "
            "connect: connection refused (3m4s ago)\n"
            "         [Running]: Started task kubelet (PID 2334) for container kubelet (3m6s ago)\n"
            "         [Preparing]: Creating service runner (3m6s ago)\n"
            "         [Preparing]: Running pre state (3m15s ago)\n"
            "         [Waiting]: Waiting for service \"timed\" to be \"up\" (3m15s ago)\n"
            "         [Waiting]: Waiting for service \"cri\" to be \"up\", service \"timed\" to be "
            "\"up\" (3m16s ago)\n"
            "         [Waiting]: Waiting for service \"cri\" to be \"up\", service \"networkd\" to "
            "be \"up\", service "
            "\"timed\" to be \"up\" (3m18s ago)\n");
}

// Catches a health message that shifts the columns of the other keys wrongly, and a service without
// events.
TEST(Render, ServiceDetailWithHealthMessage) {
  capnp::MallocMessageBuilder message;
  auto service = message.initRoot<rpc::Service>();
  service.setId("apid");
  service.setState(rpc::ServiceState::FAILED);
  service.getHealth().setUnknown(false);
  service.getHealth().setLastMessage("refused\x1b[m");
  EXPECT_EQ(renderService("n", service, 0),
            "NODE                  n\n"
            "ID                    apid\n"
            "STATE                 Failed\n"
            "HEALTH                Fail\n"
            "LAST HEALTH MESSAGE   refused\\x1b[m\n"
            "EVENTS                <none>\n");
}

TEST(Render, ServiceList) {
  uint64_t now = 1'615'000'000 * kSecond;
  Made<rpc::Services::ListResults> made;
  auto services = made.value.initServices(2);
  fillKubelet(services[0], now);
  services[1].setId("etcd");
  EXPECT_EQ(renderServices(replies<rpc::Services::ListResults>(made.from("172.20.0.2")), now),
            "NODE         SERVICE   STATE         HEALTH   LAST CHANGE   LAST EVENT\n"
            "172.20.0.2   kubelet   Running       OK       2m54s ago     Health check successful\n"
            "172.20.0.2   etcd      Initialized   ?        <none>        <none>\n");
}

// Catches: a service of this boot with an age of 50 years, because the node's clock was set after
// the service started.
TEST(Render, HowLongAgoIsNotByAClockThatIsSet) {
  uint64_t now = 1'615'000'000 * kSecond;
  Made<rpc::Services::ListResults> made;
  auto service = made.value.initServices(1)[0];
  service.setId("apid");
  service.setUptime(60 * kSecond);
  auto event = service.initEvents(1)[0];
  event.setMessage("Started");
  event.setTime(3 * kSecond);
  event.setUptime(7 * kSecond);
  EXPECT_EQ(renderServices(replies<rpc::Services::ListResults>(made.from("n")), now),
            "NODE   SERVICE   STATE         HEALTH   LAST CHANGE   LAST EVENT\n"
            "n      apid      Initialized   ?        53s ago       Started\n");
  EXPECT_EQ(renderService("n", service, now),
            "NODE     n\n"
            "ID       apid\n"
            "STATE    Initialized\n"
            "HEALTH   ?\n"
            "EVENTS   [Initialized]: Started (53s ago)\n");
}

TEST(Render, Version) {
  EXPECT_EQ(renderClientVersion(
                {"v0.9.0", "abcdef01", "2021-03-06T03:06:40Z", "clang 19.1.7", "linux", "amd64"}),
            "Client:\n"
            "\tTag:         v0.9.0\n"
            "\tSHA:         abcdef01\n"
            "\tBuilt:       2021-03-06T03:06:40Z\n"
            "\tGo version:  clang 19.1.7\n"
            "\tOS/Arch:     linux/amd64\n"
            "\n");
  Made<rpc::Version> a, b;
  a.value.setTag("v0.9.0");
  a.value.setSha("abcdef01");
  a.value.setBuilt("");
  a.value.setCompiler("clang 19.1.7");
  a.value.setOs("linux");
  a.value.setArch("amd64");
  b.value.setTag("v0.9.1");
  EXPECT_EQ(renderServerVersions(replies<rpc::Version>(a.from("10.0.0.2"), b.from("10.0.0.3"))),
            "\tNODE:        10.0.0.2\n"
            "\tTag:         v0.9.0\n"
            "\tSHA:         abcdef01\n"
            "\tBuilt:       \n"
            "\tGo version:  clang 19.1.7\n"
            "\tOS/Arch:     linux/amd64\n"
            "\tNODE:        10.0.0.3\n"
            "\tTag:         v0.9.1\n"
            "\tSHA:         \n"
            "\tBuilt:       \n"
            "\tGo version:  \n"
            "\tOS/Arch:     /\n");
}

TEST(Render, Status) {
  Made<rpc::Status> waits, runs;
  waits.value.setStage(rpc::Status::Stage::MAINTENANCE);
  waits.value.setSequence("initialize");
  waits.value.setPhase("config");
  auto problems = waits.value.initProblems(2);
  problems.set(0, "no machine config");
  problems.set(1, "a.yaml:1:1: what is this?");
  runs.value.setStage(rpc::Status::Stage::SHUTTING_DOWN);
  EXPECT_EQ(renderStatus(replies<rpc::Status>(waits.from("10.0.0.2"), runs.from("10.0.0.3"))),
            "NODE       STAGE          SEQUENCE     PHASE    PROBLEM\n"
            "10.0.0.2   maintenance    initialize   config   no machine config\n"
            "10.0.0.2                                        a.yaml:1:1: what is this?\n"
            "10.0.0.3   shuttingDown                         \n");
  Made<rpc::Status> tries;
  tries.value.setStage(rpc::Status::Stage::RUNNING);
  tries.value.setRevertsInMs(61'900);
  EXPECT_EQ(renderStatus(replies<rpc::Status>(tries.from("n"))),
            "NODE   STAGE     SEQUENCE   PHASE   PROBLEM\n"
            "n      running                      a config is on trial; reverting in "
            "1m1s\n");
  Made<rpc::Status> hangs;
  hangs.value.setStage(rpc::Status::Stage::RUNNING);
  hangs.value.setHangingReads(2);
  EXPECT_EQ(renderStatus(replies<rpc::Status>(hangs.from("n"))),
            "NODE   STAGE     SEQUENCE   PHASE   PROBLEM\n"
            "n      running                      reads that hang: 2; a disk or a mount does not "
            "answer\n");
}

TEST(Render, Memory) {
  Made<rpc::Machine::MemoryResults> made;
  struct {
    kj::StringPtr name;
    uint64_t value;
    kj::StringPtr unit;
  } lines[] = {{"MemTotal", 2038784, "kB"},     {"MemFree", 1024000, "kB"},
               {"MemAvailable", 1536000, "kB"}, {"Buffers", 2048, "kB"},
               {"Cached", 512000, "kB"},        {"Shmem", 10240, "kB"},
               {"HugePages_Total", 3, ""}};
  auto fields = made.value.initFields(kj::size(lines));
  for (size_t i = 0; i < kj::size(lines); ++i) {
    fields[i].setName(lines[i].name);
    fields[i].setValue(lines[i].value);
    fields[i].setUnit(lines[i].unit);
  }
  auto all = replies<rpc::Machine::MemoryResults>(made.from("10.0.0.2"));
  EXPECT_EQ(renderMemory(all),
            "NODE       TOTAL   USED   FREE   SHARED   BUFFERS   CACHE   AVAILABLE\n"
            "10.0.0.2   1991    489    1000   10       2         500     1500\n");
  EXPECT_EQ(renderMemoryVerbose(all),
            "NODE: 10.0.0.2\nMemTotal: 2038784 kB\nMemFree: 1024000 kB\nMemAvailable: 1536000 "
            "kB\nBuffers: 2048 kB\n"
            "Cached: 512000 kB\nShmem: 10240 kB\nHugePages_Total: 3\n");
}

// Catches mounts without a size (proc, sysfs) in the table, missing mounts of file servers, and
// percentages that overflow.
TEST(Render, Mounts) {
  Made<rpc::Machine::MountsResults> made;
  struct {
    kj::StringPtr filesystem;
    uint64_t size, available;
    kj::StringPtr on;
  } lines[] = {{"/dev/loop0", 41'943'040, 0, "/"},
               {"proc", 0, 0, "/proc"},
               {"h:/data", 0, 0, "/var/n"},
               {"tmpfs", 1'000'000'000'000'000'000, 750'000'000'000'000'000, "/run"}};
  auto mounts = made.value.initMounts(kj::size(lines));
  for (size_t i = 0; i < kj::size(lines); ++i) {
    mounts[i].setFilesystem(lines[i].filesystem);
    mounts[i].setSize(lines[i].size);
    mounts[i].setAvailable(lines[i].available);
    mounts[i].setMountedOn(lines[i].on);
  }
  EXPECT_EQ(
      renderMounts(replies<rpc::Machine::MountsResults>(made.from("n"))),
      "NODE   FILESYSTEM   SIZE(GB)        USED(GB)       AVAILABLE(GB)   PERCENT USED   MOUNTED "
      "ON\n"
      "n      /dev/loop0   0.04            0.04           0.00            100.00%        /\n"
      "n      h:/data      -               -              -               -              /var/n\n"
      "n      tmpfs        1000000000.00   250000000.00   750000000.00    25.00%         /run\n");
}

TEST(Render, Stats) {
  Made<rpc::Machine::StatsResults> made;
  auto stats = made.value.initStats(1);
  stats[0].setNamespace("system");
  stats[0].setId("apid");
  stats[0].setMemoryUsage(6'543'210);
  stats[0].setCpuUsageNs(123456789);
  EXPECT_EQ(renderStats(replies<rpc::Machine::StatsResults>(made.from("10.0.0.2"))),
            "NODE       NAMESPACE   ID     MEMORY(MB)   CPU\n"
            "10.0.0.2   system      apid   6.54         123456789\n");
}

// Catches: a container that is not shown below its pod, a container of the node itself that is.
TEST(Render, ContainersStandBelowTheirPods) {
  Made<rpc::Containers::ListResults> made;
  auto rows = made.value.initContainers(3);
  auto fill = [&](unsigned i, kj::StringPtr space, kj::StringPtr id, kj::StringPtr image,
                  unsigned pid, kj::StringPtr status, kj::StringPtr pod) {
    rows[i].setNamespace(space);
    rows[i].setId(id);
    rows[i].setImage(image);
    rows[i].setPid(pid);
    rows[i].setStatus(status);
    rows[i].setPodId(pod);
  };
  fill(0, "k8s.io", "kube-system/x", "", 12, "SANDBOX_READY", "kube-system/x");
  fill(1, "k8s.io", "kube-system/x:y", "example.com/y:1", 13, "CONTAINER_RUNNING", "kube-system/x");
  fill(2, "system", "etcd", "example.com/etcd:3", 14, "RUNNING", "");
  EXPECT_EQ(renderContainers(replies<rpc::Containers::ListResults>(made.from("n"))),
            "NODE   NAMESPACE   ID                   IMAGE                PID   STATUS\n"
            "n      k8s.io      kube-system/x                             12    SANDBOX_READY\n"
            "n      k8s.io      └─ kube-system/x:y   example.com/y:1      13    CONTAINER_RUNNING\n"
            "n      system      etcd                 example.com/etcd:3   14    RUNNING\n");

  Made<rpc::Containers::StatsResults> used;
  auto stats = used.value.initStats(2);
  stats[0].setNamespace("k8s.io");
  stats[0].setId("kube-system/x");
  stats[0].setPodId("kube-system/x");
  stats[1].setNamespace("k8s.io");
  stats[1].setId("kube-system/x:y");
  stats[1].setPodId("kube-system/x");
  stats[1].setMemoryUsage(26'214'400);
  stats[1].setCpuUsageNs(77);
  EXPECT_EQ(renderPodStats(replies<rpc::Containers::StatsResults>(used.from("n"))),
            "NODE   NAMESPACE   ID                   MEMORY(MB)   CPU\n"
            "n      k8s.io      kube-system/x        0.00         0\n"
            "n      k8s.io      └─ kube-system/x:y   26.21        77\n");
}

TEST(Render, ImagesShowTheirSizeForPeople) {
  Made<rpc::Containers::ImagesResults> made;
  auto images = made.value.initImages(1);
  images[0].setName("example.com/x:1");
  images[0].setDigest("sha256:ab");
  images[0].setSize(12'300'000);
  images[0].setCreated(1'600'000'000 * kSecond);
  EXPECT_EQ(renderImages(replies<rpc::Containers::ImagesResults>(made.from("n"))),
            "NODE   IMAGE             DIGEST      SIZE    CREATED\n"
            "n      example.com/x:1   sha256:ab   12 MB   2020-09-13T12:26:40Z\n");
}

TEST(Render, ProcessesAreSortedWithTwoSpaces) {
  Made<rpc::Machine::ProcessesResults> made;
  struct {
    int pid;
    uint64_t cpu, rss;
    kj::StringPtr command, executable, args;
  } lines[] = {{1, 1500, 3'000'000, "init", "/sbin/init", "/sbin/init"},
               {2, 0, 0, "kthreadd", "", ""},
               {70, 250, 8'200'000, "apid", "/usr/bin/apid", "apid --flag x"},
               {80, 90, 1'000, "other", "/usr/bin/other", "renamed"}};
  auto list = made.value.initProcesses(kj::size(lines));
  for (size_t i = 0; i < kj::size(lines); ++i) {
    list[i].setPid(lines[i].pid);
    list[i].setState("S");
    list[i].setThreads(1);
    list[i].setCpuTimeMs(lines[i].cpu);
    list[i].setVirtualMemory(lines[i].rss * 2);
    list[i].setResidentMemory(lines[i].rss);
    list[i].setCommand(lines[i].command);
    list[i].setExecutable(lines[i].executable);
    list[i].setArgs(lines[i].args);
  }
  auto all = replies<rpc::Machine::ProcessesResults>(made.from("n"));
  EXPECT_EQ(renderProcesses(all, SortBy::kResident),
            "NODE  PID  STATE  THREADS  CPU-TIME  VIRTMEM  RESMEM  COMMAND\n"
            "n     70   S      1        0.25      16 MB    8.2 MB  /usr/bin/apid --flag x\n"
            "n     1    S      1        1.50      6.0 MB   3.0 MB  /sbin/init\n"
            "n     80   S      1        0.09      2.0 kB   1.0 kB  renamed\n"
            "n     2    S      1        0.00      0 B      0 B     kthreadd\n");
  auto byCpu = renderProcesses(all, SortBy::kCpu);
  EXPECT_NE(byCpu.findFirst('\n'), nullptr);
  EXPECT_TRUE(kj::StringPtr(byCpu)
                  .slice(KJ_ASSERT_NONNULL(byCpu.findFirst('\n')) + 1)
                  .startsWith("n     1 "));
}

TEST(Render, InterfacesAndRoutes) {
  Made<rpc::Network::InterfacesResults> made;
  auto interfaces = made.value.initInterfaces(2);
  interfaces[0].setIndex(1);
  interfaces[0].setName("lo");
  interfaces[0].setMtu(65536);
  auto addresses = interfaces[0].initAddresses(2);
  addresses.set(0, "127.0.0.1/8");
  addresses.set(1, "::1/128");
  interfaces[1].setName("no-address");
  EXPECT_EQ(renderInterfaces(replies<rpc::Network::InterfacesResults>(made.from("n"))),
            "NODE   INDEX   NAME   MAC   MTU     ADDRESS\n"
            "n      1       lo           65536   127.0.0.1/8\n"
            "n      1       lo           65536   ::1/128\n");
  Made<rpc::Network::RoutesResults> routes;
  auto route = routes.value.initRoutes(1)[0];
  route.setInterface("eth0");
  route.setDestination("0.0.0.0/0");
  route.setGateway("10.5.0.1/32");
  route.setMetric(1024);
  EXPECT_EQ(renderRoutes(replies<rpc::Network::RoutesResults>(routes.from("n"))),
            "NODE   INTERFACE   DESTINATION   GATEWAY       METRIC\n"
            "n      eth0        0.0.0.0/0     10.5.0.1/32   1024\n");
}

std::string row(rpc::Event::Reader event) {
  KJ_IF_MAYBE (cells, eventRow("n", event)) return kj::strArray(*cells, "|").cStr();
  return "not shown";
}

TEST(Render, Events) {
  capnp::MallocMessageBuilder message;
  auto event = message.initRoot<rpc::Event>();
  event.setId("c0ffee");
  event.setTime(1'615'000'000'000'000'000);
  auto sequence = event.initSequence();
  sequence.setSequence("boot");
  sequence.setAction(rpc::Action::START);
  EXPECT_EQ(row(event),
            "n|c0ffee|2021-03-06T03:06:40Z|talos/runtime/machine.SequenceEvent|boot|START");
  sequence.setError("no disk");
  EXPECT_EQ(
      row(event),
      "n|c0ffee|2021-03-06T03:06:40Z|talos/runtime/machine.SequenceEvent|boot|error: no disk");
  event.initPhase().setName("etc");
  event.getPhase().setAction(rpc::Action::STOP);
  EXPECT_EQ(row(event), "n|c0ffee|2021-03-06T03:06:40Z|talos/runtime/machine.PhaseEvent|etc|STOP");
  event.initTask().setName("writeHosts");
  EXPECT_EQ(row(event),
            "n|c0ffee|2021-03-06T03:06:40Z|talos/runtime/machine.TaskEvent|writeHosts|NOOP");
  auto service = event.initService();
  service.setService("etcd");
  service.setState(rpc::ServiceState::RUNNING);
  service.setMessage("Health check successful");
  EXPECT_EQ(row(event),
            "n|c0ffee|2021-03-06T03:06:40Z|talos/runtime/machine.ServiceStateEvent|etcd|RUNNING: "
            "Health check successful");
  auto network = event.initNetwork();
  network.setLink("eth0");
  network.setMessage("was changed");
  EXPECT_EQ(row(event),
            "n|c0ffee|2021-03-06T03:06:40Z|talos/runtime/machine.NetworkEvent|eth0|was changed");
  event.initConfig().setMessage("a config is on trial");
  EXPECT_EQ(row(event),
            "n|c0ffee|2021-03-06T03:06:40Z|talos/runtime/machine.ConfigEvent|machineconfig|a "
            "config is on trial");
  event.setRestart(1);
  EXPECT_EQ(row(event), "not shown");
}

// The documents' `ls` of the static pods' folder.
TEST(Render, FileRows) {
  capnp::MallocMessageBuilder message;
  auto file = message.initRoot<rpc::FileInfo>();
  Table table({"NODE", "NAME"});
  for (kj::StringPtr name : {".", "talos-kube-apiserver.yaml", "new\nline"}) {
    file.setRelativeName(name);
    table.row(fileRow("172.20.0.2", file, false, {}));
  }
  EXPECT_EQ(table.render(),
            "NODE         NAME\n"
            "172.20.0.2   .\n"
            "172.20.0.2   talos-kube-apiserver.yaml\n"
            "172.20.0.2   new\\x0aline\n");
  setenv("TZ", "UTC", 1);
  file.setRelativeName("localtime");
  file.setLink("/usr/share/zoneinfo/UTC");
  file.setMode(0120777);
  file.setUid(7);
  file.setGid(8);
  file.setSize(23);
  file.setModified(1'614'988'805);
  EXPECT_EQ(kj::strArray(fileRow("n", file, true, {.now = 1'615'000'000 * kSecond}), "|"),
            "n|Lrwxrwxrwx|7|8|23|Mar  6 00:00:05|localtime -> /usr/share/zoneinfo/UTC");
}

}  // namespace
}  // namespace talos::talosctl
