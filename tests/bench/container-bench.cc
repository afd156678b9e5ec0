// An image pulled and a container started through machined's calls to containerd, beside `ctr` on
// the same containerd, from the same registry, in turn.
//
//   container-bench BASE-FILE SAMPLE RUNS
//
// BASE-FILE is the image's containerd.toml, SAMPLE the program in the container. Prints
// {"pull":{"oursMs":…,"ctrMs":…},"start":{"oursMs":…,"ctrMs":…},"imageMiB":…}, medians. Before each
// pull no part of the image exists. The times of ctr include its own start, because each call of
// ctr costs it.
//
// link: machined-services-containers machined-system model-registry harness
#include <sys/mount.h>

#include <fstream>
#include <random>
#include <vector>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/config/config.h"
#include "machined/services/containers/container-run.h"
#include "machined/system/containerd-registries.h"
#include "tests/bench/arguments.h"
#include "tests/bench/processes.h"
#include "tests/containerd/model-registry.h"
#include "tests/harness/process.h"

namespace talos::bench {
namespace {

constexpr size_t kPadding = 16 << 20;  // that does not compress: most images are not small
constexpr kj::StringPtr kImage = "example.com/sample:1"_kj;

class Testbed {
 public:
  Testbed(const std::string& baseFile, const std::string& sample)
      : folder(makeFolder()), registry({.layer = layerOf(sample)}) {
    configure(baseFile);
    log = kj::AutoCloseFd(
        open((folder + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    daemon = child([&]() {
      dup2(log, STDOUT_FILENO);
      dup2(log, STDERR_FILENO);
      execlp("containerd", "containerd", "--config", (folder + "/base.toml").c_str(), "--address",
             socket().c_str(), "--root", (folder + "/root").c_str(), "--state",
             (folder + "/state").c_str(), nullptr);
      KJ_FAIL_SYSCALL("exec containerd", errno);
    });
  }
  ~Testbed() {
    kill(daemon, SIGKILL);
    waitpid(daemon, nullptr, 0);
    for (auto& line : harness::lines(harness::slurp("/proc/self/mounts"))) {
      auto at = line.find(folder);
      if (at == std::string::npos) continue;
      umount2(line.substr(at, line.find(' ', at) - at).c_str(), MNT_DETACH);
    }
    removeTree(folder.c_str());
  }
  KJ_DISALLOW_COPY_AND_MOVE(Testbed);

  std::string socket() const { return folder + "/socket"; }
  std::string hosts() const { return folder + "/cri/certs.d"; }
  // Fails with ctr's words, for then there is nothing to measure.
  std::string ctr(std::vector<std::string> words) const {
    words.insert(words.begin(), {"ctr", "--address", socket()});
    auto result = harness::run(words);
    KJ_REQUIRE(result.status == 0, result.err.c_str(), harness::slurp(folder + "/log").c_str());
    return result.out;
  }
  // Under all of its names: the CRI gives it three, and each keeps the layers.
  void forgetImages(const std::string& nameSpace) const {
    auto names = harness::lines(ctr({"--namespace", nameSpace, "images", "ls", "--quiet"}));
    KJ_REQUIRE(!names.empty(), "there is no image to remove", nameSpace.c_str());
    names.insert(names.begin(), {"--namespace", nameSpace, "images", "rm", "--sync"});
    ctr(names);
  }
  size_t asked() const { return registry.asked().size(); }

 private:
  std::string folder;
  test::ModelRegistry registry;
  kj::AutoCloseFd log;
  pid_t daemon = -1;

  static std::string makeFolder() {
    char name[] = "/tmp/container-bench-XXXXXX";
    KJ_REQUIRE(mkdtemp(name) != nullptr);
    return name;
  }
  std::string layerOf(const std::string& sample) const {
    auto tree = folder + "/tree";
    makeDirectories(kj::str(tree.c_str(), "/etc"));
    std::ofstream padding(tree + "/padding", std::ios::binary);
    std::mt19937_64 chance(1);
    for (size_t i = 0; i < kPadding / sizeof(uint64_t); ++i) {
      auto word = chance();
      padding.write(reinterpret_cast<const char*>(&word), sizeof word);
    }
    padding.close();
    for (auto& command : {std::vector<std::string>{"cp", sample, tree + "/sample"},
                          {"tar", "-C", tree, "-cf", folder + "/layer.tar", "."}}) {
      auto result = harness::run(command);
      KJ_REQUIRE(result.status == 0, result.err.c_str());
    }
    return harness::slurp(folder + "/layer.tar");
  }
  // Writes the configuration as machined does.
  void configure(const std::string& baseFile) const {
    auto text = kj::str("machine:\n  registries:\n    mirrors:\n      '*': {endpoints: [\"",
                        registry.url().c_str(), "\"]}\n");
    auto config = config::parse(text.asArray(), "bench");
    auto cri = kj::str(folder.c_str(), "/cri");
    machined::writeRegistryFiles(
        cri, machined::registryFiles(config.get().getMachine().getRegistries(), cri,
                                     machined::OomScores::kAny));
    auto base = harness::slurp(baseFile);
    constexpr char kOurs[] = "/system/etc/cri/conf.d";
    auto at = base.find(kOurs);
    KJ_REQUIRE(at != std::string::npos, baseFile.c_str());
    base.replace(at, strlen(kOurs), folder + "/cri/conf.d");
    std::ofstream(folder + "/base.toml") << base;
  }
};

class Measurement {
 public:
  Measurement(const std::string& baseFile, const std::string& sample)
      : testbed(baseFile, sample),
        io(kj::setupAsyncIo()),
        containerd(*io.lowLevelProvider, io.provider->getTimer(), testbed.socket().c_str()) {
    auto& timer = io.provider->getTimer();
    timer.timeoutAfter(60 * kj::SECONDS, containerd.serving()).wait(io.waitScope);
    int ends[2];
    KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
    reading = kj::AutoCloseFd(ends[0]);
    writing = kj::AutoCloseFd(ends[1]);
  }

  void run(unsigned runs) {
    kj::Vector<uint64_t> pulls, starts, theirPulls, theirStarts;
    for (unsigned i = 0; i < runs; ++i) {
      pulls.add(timed([&]() {
        machined::pullImage(containerd, kj::str(kImage)).ignoreResult().wait(io.waitScope);
      }));
      starts.add(timed([&]() { start(kj::str("ours-", i)); }));
      machined::removeContainer(containerd, kj::str("ours-", i)).wait(io.waitScope);
      testbed.forgetImages("k8s.io");
      auto id = "ctr-" + std::to_string(i);
      theirPulls.add(timed([&]() {
        testbed.ctr({"images", "pull", "--hosts-dir", testbed.hosts(), kImage.cStr()});
      }));
      theirStarts.add(timed(
          [&]() { testbed.ctr({"run", "--detach", "--net-host", kImage.cStr(), id, "/sample"}); }));
      testbed.ctr({"tasks", "kill", "--signal", "SIGKILL", id});
      testbed.ctr({"tasks", "rm", "--force", id});
      testbed.ctr({"containers", "rm", id});
      testbed.forgetImages("default");
    }
    // The manifest, the config and the layer, each time and by both.
    KJ_REQUIRE(testbed.asked() >= 2 * 3 * runs, "not everything was pulled", testbed.asked());
    auto ms = [](kj::Vector<uint64_t>& took) { return figureOf(kj::mv(took)).p50 / 1000; };
    printf(
        "{\"pull\":{\"oursMs\":%.1f,\"ctrMs\":%.1f},\"start\":{\"oursMs\":%.1f,\"ctrMs\":%.1f},"
        "\"imageMiB\":%zu}\n",
        ms(pulls), ms(theirPulls), ms(starts), ms(theirStarts), kPadding >> 20);
  }

 private:
  Testbed testbed;
  kj::AsyncIoContext io;
  machined::Containerd containerd;
  kj::AutoCloseFd reading, writing;  // output of the container, which is not used

  template <typename F>
  static uint64_t timed(F&& work) {
    auto began = nanoseconds();
    work();
    return nanoseconds() - began;
  }
  void start(kj::String id) {
    machined::ContainerSpec spec;
    spec.cgroup = kj::str("talos-container-bench-", getpid(), "-", id);
    spec.id = kj::mv(id);
    spec.image = kj::str(kImage);
    spec.arguments = kj::arr(kj::str("/sample"));
    spec.environment = kj::arr(kj::str("PATH=/"));
    machined::runContainer(containerd, spec, writing).ignoreResult().wait(io.waitScope);
  }
};

}  // namespace
}  // namespace talos::bench

int main(int argc, char** argv) {
  auto usage = "BASE-FILE SAMPLE RUNS"_kj;
  return talos::bench::runMain(argc, argv, "container-bench", usage, [](auto& arguments) {
    arguments.expect(3, 3);
    auto runs = arguments.number(3, "RUNS", 1, 1000);
    talos::bench::Measurement(arguments.text(1).cStr(), arguments.text(2).cStr()).run(runs);
  });
}
