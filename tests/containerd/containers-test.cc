// Images and containers of the node, with Debian's containerd and runc and a model of a registry.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <thread>

#include "machined/confined/parser/test-direct-foreign.h"
#include "machined/services/containers/container-list.h"
#include "machined/services/containers/container-run.h"
#include "machined/upgrade/image-signatures.h"
#include "tests/containerd/containerd-fixture.h"

namespace talos::test {
namespace {

using namespace machined;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A pipe as the logs of a service have it.
struct OutputPipe {
  kj::AutoCloseFd reading, writing;
  std::string text;

  OutputPipe() {
    int fds[2];
    KJ_SYSCALL(pipe2(fds, O_CLOEXEC));
    reading = kj::AutoCloseFd(fds[0]);
    writing = kj::AutoCloseFd(fds[1]);
    KJ_SYSCALL(fcntl(reading, F_SETFL, O_NONBLOCK));
  }
  const std::string& drain() {
    char buffer[65536];
    for (ssize_t n; (n = read(reading, buffer, sizeof buffer)) > 0;) text.append(buffer, n);
    return text;
  }
  int newest() {
    auto at = drain().rfind("line ");
    return at == std::string::npos ? -1 : atoi(text.c_str() + at + 5);
  }
  // Every number from 0 on, once.
  bool whole() {
    int expected = 0;
    for (auto& line : harness::lines(drain())) {
      if (line == "ended") continue;
      if (line != "line " + std::to_string(expected++)) return false;
    }
    return true;
  }
};

class ContainersTest : public ContainerdTest {
 public:
  ~ContainersTest() noexcept override {}

 protected:
  // Created after all registries: they are forks of this process, with their own loops.
  std::optional<kj::AsyncIoContext> loop;
  std::optional<Containerd> containerd;
  std::vector<std::string> notes;

  void startWith(const std::string& yaml) {
    configure(yaml);
    start();
    auto socket = kj::str(path("socket").c_str());
    if (!loop) loop.emplace(kj::setupAsyncIo());
    containerd.emplace(*loop->lowLevelProvider, loop->provider->getTimer(), socket);
    serve();
  }
  void serve() { containerd->serving().wait(loop->waitScope); }
  void mirrorOf(ModelRegistry& registry) {
    startWith("    mirrors:\n      '*': {endpoints: [\"" + registry.url() + "\"]}");
  }
  // "Kind: message"; empty when it was pulled.
  std::string pull(kj::StringPtr image) {
    std::string result;
    pullImage(*containerd, kj::str(image))
        .then([](UnpackedImage) {},
              [&](kj::Exception&& e) {
                result = kj::str(nameOf(kindOf(e)), ": ", messageOf(e)).cStr();
              })
        .wait(loop->waitScope);
    return result;
  }
  ContainerSpec sample(kj::StringPtr id) {
    ContainerSpec spec;
    spec.id = kj::str(id);
    spec.image = kj::str("example.com/sample:1");
    spec.arguments = kj::arr(kj::str("/sample"));
    spec.environment = kj::arr(kj::str("PATH=/"));
    spec.cgroup = kj::str("talos-containers-test-", getpid(), "-", id);  // goes with it
    return spec;
  }
  RunningContainer begin(const ContainerSpec& spec, OutputPipe& output) {
    needImage(*containerd, kj::str(spec.image), [this](kj::StringPtr note) {
      notes.push_back(note.cStr());
    }).wait(loop->waitScope);
    return runContainer(*containerd, spec, output.writing).wait(loop->waitScope);
  }
  void remove(kj::StringPtr id) { removeContainer(*containerd, kj::str(id)).wait(loop->waitScope); }
  std::vector<std::string> words(std::vector<std::string> command) {
    auto result = run(ctr(command));
    EXPECT_EQ(0, result.status) << result.err;
    return harness::lines(result.out);
  }
  void TearDown() override {
    if (containerd && daemon) {
      auto left = systemContainers(*containerd).wait(loop->waitScope);
      for (auto& container : left) remove(container.id);
    }
    daemon.reset();
    // Mounts that the snapshotter and shims of a killed containerd left.
    for (auto& line : harness::lines(harness::slurp("/proc/self/mounts"))) {
      auto at = line.find(folder.cStr());
      if (at != std::string::npos)
        umount2(line.substr(at, line.find(' ', at) - at).c_str(), MNT_DETACH);
    }
    ContainerdTest::TearDown();
  }
};

// Catches: an image that is pulled past the mirrors, an existing image that is pulled again, wrong
// names and digests.
TEST_F(ContainersTest, AnImageIsPulledOnceAndListed) {
  ModelRegistry registry{{.layer = layer()}};
  mirrorOf(registry);
  EXPECT_THAT(images(*containerd).wait(loop->waitScope), SizeIs(0));
  auto there = unpackedImage(*containerd, kj::str("example.com/sample:1")).wait(loop->waitScope);
  EXPECT_TRUE(there == nullptr);
  EXPECT_EQ("", pull("example.com/sample:1"));
  EXPECT_THAT(registry.asked(),
              testing::Contains(testing::StartsWith("/v2/sample/manifests/1?ns=example.com")));
  auto asked = registry.asked().size();
  auto needed = needImage(*containerd, kj::str("example.com/sample:1"), [](kj::StringPtr) {
                }).wait(loop->waitScope);
  EXPECT_THAT(needed.snapshot.cStr(), testing::StartsWith("sha256:"));
  EXPECT_EQ(asked, registry.asked().size());
  auto listed = images(*containerd).wait(loop->waitScope);
  std::vector<std::string> names;
  for (auto& image : listed) names.push_back(image.name.cStr());
  EXPECT_THAT(names, testing::Contains("example.com/sample:1"));
  EXPECT_THAT(names, testing::Not(testing::Contains(testing::StartsWith("sha256:"))));
  for (auto& image : listed) {
    EXPECT_THAT(image.digest.cStr(), testing::StartsWith("sha256:"));
    EXPECT_GT(image.size, 10000u) << image.name.cStr();
  }
}

// Catches: a failure that does not say what to do, a "not found" that is retried for 20 minutes,
// content that differs from its digest, a "not found" of a mirror that is reported as the
// registry's, which is unavailable and may have the image.
TEST_F(ContainersTest, WhatARegistryDoesWrongIsSaidClearly) {
  auto content = layer();
  ModelRegistry good{{.layer = content}}, lying{{.layer = content, .lies = true}},
      closed{{.layer = content, .credentials = "user:secret"}},
      unknown{{.kind = ModelRegistry::Kind::kTls, .authority = authority}},
      slow{{.layer = content, .slowMs = 300}};
  startWith("    mirrors:\n      good.example: {endpoints: [\"" + good.url() +
            "\"]}\n      lying.example: {endpoints: [\"" + lying.url() +
            "\"]}\n      closed.example: {endpoints: [\"" + closed.url() +
            "\"]}\n      unknown.example: {endpoints: [\"" + unknown.url() +
            "\"]}\n      slow.example: {endpoints: [\"" + slow.url() +
            "\"]}\n      none.example: {endpoints: [\"http://127.0.0.1:1\"]}");
  auto absent = good.host() + "/absent/x:1";
  EXPECT_EQ("NotFound: cannot pull \"" + absent +
                "\": the registry has no such image; check the name and the tag",
            pull(absent.c_str()));
  // A mirror without this image is skipped silently; the error is of the next server.
  EXPECT_THAT(pull("good.example/absent/x:1"),
              testing::AllOf(HasSubstr("Unavailable: "), HasSubstr("https://good.example/v2/")));
  EXPECT_THAT(
      pull("Not A Name"),
      HasSubstr("InvalidArgument: cannot pull \"Not A Name\": not a valid image reference"));
  EXPECT_THAT(
      pull("lying.example/x:1"),
      HasSubstr(
          "Unavailable: cannot pull \"lying.example/x:1\": the registry has sent other content"));
  EXPECT_THAT(pull("closed.example/x:1"),
              testing::AllOf(HasSubstr("PermissionDenied: "),
                             HasSubstr("machine.registries.config.<host>.auth")));
  EXPECT_THAT(
      pull("unknown.example/x:1"),
      testing::AllOf(HasSubstr("Unauthenticated: "),
                     HasSubstr("certificate signed by unknown authority"), HasSubstr("tls.ca")));
  EXPECT_THAT(pull("none.example/x:1"),
              testing::AllOf(HasSubstr("Unavailable: "), HasSubstr("connection refused")));
  EXPECT_EQ("", pull("slow.example/x:1"));
  // With credentials for the host that answers.
  containerd.reset();
  daemon.reset();
  startWith("    mirrors:\n      closed.example: {endpoints: [\"" + closed.url() +
            "\"]}\n    config:\n      " + closed.host() +
            ": {auth: {username: user, password: secret}}");
  EXPECT_EQ("", pull("closed.example/x:1"));
}

// Catches: signatures stored as cosign stores them, signed as openssl signs, that are not found or
// not accepted; a signature of another image that is accepted; remains of signatures.
TEST_F(ContainersTest, ImagesAreSigned) {
  auto content = layer();
  auto digest = ModelRegistry::digestOf({.layer = content});
  auto payloadOf = [](const std::string& image) {
    return R"({"critical":{"identity":{"docker-reference":"signed.example/i"},"image":)"
           R"({"docker-manifest-digest":")" +
           image + R"("},"type":"cosign container image signature"},"optional":null})";
  };
  auto openssl = [&](std::vector<std::string> more) {
    more.insert(more.begin(), "openssl");
    auto result = run(more);
    EXPECT_EQ(0, result.status) << result.err;
    return result.out;
  };
  auto sign = [&](const std::string& payload) {
    put("payload", payload.c_str());
    auto bytes = openssl({"dgst", "-sha256", "-sign", path("key"), path("payload")});
    return std::string(kj::encodeBase64(kj::arrayPtr(bytes.data(), bytes.size()).asBytes()).cStr());
  };
  openssl(
      {"genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path("key")});
  auto key = openssl({"pkey", "-in", path("key"), "-pubout"});
  auto own = payloadOf(digest), other = payloadOf("sha256:" + std::string(64, 'b'));
  ModelRegistry registry{{.layer = content, .signedPayload = own, .signature = sign(own)}},
      wrong{{.layer = content, .signedPayload = other, .signature = sign(other)}};
  startWith("    mirrors:\n      signed.example: {endpoints: [\"" + registry.url() +
            "\"]}\n      wrong.example: {endpoints: [\"" + wrong.url() + "\"]}");
  DirectForeign foreign;
  auto problem = [&](const std::string& pinned) {
    std::string result;
    requireSignature(*containerd, foreign, kj::str(pinned.c_str()), kj::str(key.c_str()))
        .catch_([&](kj::Exception&& e) { result = messageOf(e).cStr(); })
        .wait(loop->waitScope);
    return result;
  };
  auto pulled = pullImage(*containerd, kj::str("signed.example/i:1")).wait(loop->waitScope);
  EXPECT_EQ("signed.example/i@" + digest, pulled.pinned.cStr());
  EXPECT_EQ("", problem(pulled.pinned.cStr()));
  EXPECT_THAT(problem("wrong.example/i@" + digest),
              HasSubstr(" is one of another image, sha256:bbbb"));
  for (auto& image : images(*containerd).wait(loop->waitScope)) {
    EXPECT_THAT(image.name.cStr(), testing::Not(HasSubstr(".sig")));
  }
}

// Catches: a container without a system call filter, as a process of the same program has one; a
// server that the filter keeps from its network or its threads.
TEST_F(ContainersTest, AContainerHasASystemCallFilter) {
  ModelRegistry registry{{.layer = layer()}};
  mirrorOf(registry);
  OutputPipe output;
  auto spec = sample("filtered");
  spec.arguments = kj::arr(kj::str("/sample"), kj::str("calls"));
  auto running = begin(spec, output);
  ASSERT_TRUE(harness::eventually([&]() { return output.newest() >= 0; }, 20)) << output.text;
  EXPECT_THAT(output.text, testing::StartsWith("IP: yes\nIPv6: yes\nnetlink: yes\n"
                                               "Unix: Operation not permitted\n"
                                               "packets: Operation not permitted\n"
                                               "vsock: Operation not permitted\n"
                                               "socketpair: Operation not permitted\n"
                                               "namespaces: Operation not permitted\n"
                                               "keys: Operation not permitted\n"
                                               "threads: yes\n"
                                               "processes: Operation not permitted\n"));
  auto status = harness::slurp("/proc/" + std::to_string(running.pid) + "/status");
  EXPECT_THAT(status, HasSubstr("\nNoNewPrivs:\t1\n"));
  EXPECT_THAT(status, HasSubstr("\nSeccomp:\t2\n"));
  remove("filtered");
}

// Catches: a second container beside the running one, an exit status that is lost, layers and
// records that pile up with each start.
TEST_F(ContainersTest, AContainerRunsIsAdoptedEndsAndLeavesNothing) {
  ModelRegistry registry{{.layer = layer()}};
  mirrorOf(registry);
  OutputPipe output;
  auto spec = sample("sample");
  auto first = begin(spec, output);
  EXPECT_FALSE(first.adopted);
  ASSERT_TRUE(harness::eventually([&]() { return output.newest() > 10; }, 20));
  auto listed = systemContainers(*containerd).wait(loop->waitScope);
  ASSERT_THAT(listed, SizeIs(1));
  EXPECT_EQ(kj::str("sample"), listed[0].id);
  EXPECT_EQ(kj::str("RUNNING"), listed[0].status);
  EXPECT_EQ(kj::str("example.com/sample:1"), listed[0].image);
  EXPECT_EQ(first.pid, static_cast<int>(listed[0].pid));
  auto again = begin(spec, output);
  EXPECT_TRUE(again.adopted);
  EXPECT_EQ(first.pid, again.pid);
  auto ended = containerEnded(*containerd, kj::str("sample"));
  EXPECT_FALSE(ended.poll(loop->waitScope));
  endSystemContainer(*containerd, kj::str("sample")).wait(loop->waitScope);
  EXPECT_EQ(7u, ended.wait(loop->waitScope));
  // The container's last output comes through a process of containerd's.
  EXPECT_TRUE(harness::eventually([&]() { return output.drain().ends_with("ended\n"); }, 20))
      << output.text;
  EXPECT_TRUE(output.whole());
  // A stopped container is created again, with a new writable layer.
  OutputPipe second;
  auto next = begin(spec, second);
  EXPECT_FALSE(next.adopted);
  ASSERT_TRUE(harness::eventually([&]() { return second.newest() > 0; }, 20));
  remove("sample");
  EXPECT_THAT(systemContainers(*containerd).wait(loop->waitScope), SizeIs(0));
  EXPECT_THAT(words({"-n", "system", "containers", "ls", "-q"}), IsEmpty());
  EXPECT_THAT(words({"-n", "k8s.io", "snapshots", "ls"}), SizeIs(2))
      << "the head line and the image";
  auto gone = kj::runCatchingExceptions(
      [&]() { endSystemContainer(*containerd, kj::str("sample")).wait(loop->waitScope); });
  EXPECT_EQ("container \"sample\" is unknown; use an id of talosctl containers",
            messageOf(KJ_ASSERT_NONNULL(gone)));
}

// Catches: a service that never starts again, because containerd has left the folder of a start
// that was cut off in its own way and removes it only when it is restarted.
TEST_F(ContainersTest, AFolderThatContainerdLeftBehindIsRemoved) {
  ModelRegistry registry{{.layer = layer()}};
  mirrorOf(registry);
  auto spec = sample("left");
  auto folder = path("state/io.containerd.runtime.v2.task/system/left");
  std::filesystem::create_directories(folder + "/rootfs");
  harness::Background shim(
      {"/bin/sh", "-c", "cd '" + folder + "' && echo inside && exec sleep 600"});
  EXPECT_TRUE(shim.waitFor([](auto& out, auto&) { return out == "inside\n"; }, 20));
  OutputPipe output;
  std::string refused;
  try {
    begin(spec, output);
  } catch (const kj::Exception& e) {
    refused = e.getDescription().cStr();
  }
  EXPECT_THAT(refused, HasSubstr("file exists"));
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_NE(shim.finish(20), -1) << "its shim lives";
  EXPECT_FALSE(begin(spec, output).adopted);
  remove("left");
}

// Catches: containers that end with containerd, containers that are started again beside running
// ones, lines that are lost while no client watches.
TEST_F(ContainersTest, TenContainersOutliveKilledContainerds) {
  ModelRegistry registry{{.layer = layer()}};
  mirrorOf(registry);
  std::vector<ContainerSpec> specs;
  std::vector<OutputPipe> outputs(10);
  std::vector<int> pids;
  for (int i = 0; i < 10; ++i) {
    specs.push_back(sample(kj::str("sample-", i)));
    pids.push_back(begin(specs[i], outputs[i]).pid);
  }
  for (int round = 0; round < 3; ++round) {
    auto waiting = containerEnded(*containerd, kj::str("sample-0"));
    EXPECT_FALSE(waiting.poll(loop->waitScope));
    daemon.reset();  // SIGKILL
    std::vector<int> before;
    for (auto& output : outputs) before.push_back(output.newest());
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(harness::eventually([&]() { return outputs[i].newest() > before[i]; }, 20)) << i;
    }
    start();
    serve();
    EXPECT_FALSE(waiting.poll(loop->waitScope));
    for (int i = 0; i < 10; ++i) {
      auto there = begin(specs[i], outputs[i]);
      EXPECT_TRUE(there.adopted) << i;
      EXPECT_EQ(pids[i], there.pid) << i;
    }
    EXPECT_THAT(systemContainers(*containerd).wait(loop->waitScope), SizeIs(10));
  }
  auto ended = containerEnded(*containerd, kj::str("sample-3"));
  signalContainer(*containerd, kj::str("sample-3"), SIGTERM).wait(loop->waitScope);
  EXPECT_EQ(7u, ended.wait(loop->waitScope));
  for (auto& output : outputs) EXPECT_TRUE(output.whole());
  EXPECT_THAT(notes, IsEmpty());
}

// Makes each seal fail with EBUSY, which the kernel does while it moves pages of the file. The
// filter is for this thread and the processes that it starts.
void refuseSeals() {
  constexpr auto kNumber = offsetof(seccomp_data, nr), kCommand = offsetof(seccomp_data, args[1]);
  struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
                               BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 3),
                               BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kCommand),
                               BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_ADD_SEALS, 0, 1),
                               BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EBUSY),
                               BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {std::size(code), code};
  KJ_SYSCALL(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), "this test needs root");
  int fd;
  KJ_SYSCALL(fd = memfd_create("refused", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  kj::AutoCloseFd file(fd);
  EXPECT_EQ(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_EQ(errno, EBUSY);
}

// Catches: a runtime that seals a copy of itself for each start, which fails as "read init-p:
// connection reset by peer" on a machine that is compacting its memory.
TEST_F(ContainersTest, AContainerStartsWhileTheKernelRefusesSeals) {
  ModelRegistry registry{{.layer = layer()}};
  mirrorOf(registry);
  daemon.reset();
  std::thread([&]() {
    refuseSeals();
    start();
  }).join();
  serve();
  OutputPipe output;
  EXPECT_FALSE(begin(sample("sealed"), output).adopted);
  EXPECT_TRUE(harness::eventually([&]() { return output.newest() > 0; }, 20)) << output.text;
  remove("sealed");
}

// Catches: a reboot that fails because there is nothing to stop.
TEST_F(ContainersTest, StoppingNoPodsIsNothing) {
  mirrorOf(*std::make_unique<ModelRegistry>(ModelRegistry::Options{}));
  stopPods(*containerd, [](kj::StringPtr) {}).wait(loop->waitScope);
  EXPECT_THAT(podContainers(*containerd).wait(loop->waitScope), SizeIs(0));
  EXPECT_THAT(podUse(*containerd).wait(loop->waitScope), SizeIs(0));
  daemon.reset();
  stopPods(*containerd, [](kj::StringPtr) {}).wait(loop->waitScope);
}

}  // namespace
}  // namespace talos::test
