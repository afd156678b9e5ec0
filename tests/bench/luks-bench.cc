// LUKS2 beside cryptsetup, on a file, at the same strength: formatting with one key, opening it,
// and changing the key (the new one added, seen to open, the old one removed).
//
//   luks-bench [RUNS]   prints {"format":{"ours":MS,"theirs":MS},"open":…,"change":…}, medians
//
// Ours and the peer's in turn. The peer is started for each step, as a script would; deriving a key
// takes a hundred times as long as that.
//
// link: machined-disk-luks
// dynamic
#include <capnp/message.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "machined/disk/luks/luks-device.h"
#include "tests/bench/arguments.h"

namespace talos::luks {
namespace {

constexpr uint32_t kMemory = 256 << 10, kPasses = 4, kThreads = 2;  // KiB, of argon2id
constexpr off_t kBytes = 32 << 20;

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

class Figures {
 public:
  template <typename F>
  static void add(std::vector<double>& to, F&& work) {
    auto began = now();
    work();
    to.push_back(now() - began);
  }
  static double median(std::vector<double> all) {
    std::sort(all.begin(), all.end());
    return all[all.size() / 2];
  }
  kj::String line(kj::StringPtr name) const {
    char text[100];
    snprintf(text, sizeof text, "\"%s\":{\"ours\":%.1f,\"theirs\":%.1f}", name.cStr(), median(ours),
             median(theirs));
    return kj::str(text);
  }
  std::vector<double> ours, theirs;
};

struct Bench {
  char folder[32] = "/tmp/luks-bench-XXXXXX";
  std::string file, first, second;
  capnp::MallocMessageBuilder message;

  Bench() {
    KJ_ASSERT(mkdtemp(folder) != nullptr);
    file = std::string(folder) + "/volume";
    first = keyFile("first");
    second = keyFile("second");
    auto derivation = message.initRoot<rpc::LuksDerivation>();
    derivation.setMemory(kMemory);
    derivation.setPasses(kPasses);
    derivation.setThreads(kThreads);
  }
  ~Bench() noexcept {
    for (auto& name : {file, first, second}) unlink(name.c_str());
    rmdir(folder);
  }
  std::string keyFile(const char* passphrase) {
    auto path = std::string(folder) + "/" + passphrase;
    auto* out = fopen(path.c_str(), "w");
    KJ_ASSERT(out != nullptr && fputs(passphrase, out) >= 0 && fclose(out) == 0, path);
    return path;
  }
  void empty() {
    unlink(file.c_str());
    kj::AutoCloseFd fd(open(file.c_str(), O_RDWR | O_CREAT, 0600));
    KJ_SYSCALL(ftruncate(fd, kBytes));
  }
  static void tool(const std::string& words) {
    auto status = system(("cryptsetup --batch-mode " + words).c_str());
    KJ_ASSERT(status == 0, words, status);
  }
};

void run(unsigned runs) {
  Bench bench;
  Figures format, open, change;
  Key first{0, "first"_kj.asBytes()}, second{1, "second"_kj.asBytes()};
  auto derivation = bench.message.getRoot<rpc::LuksDerivation>().asReader();
  auto strength = " --pbkdf argon2id --pbkdf-memory " + std::to_string(kMemory) +
                  " --pbkdf-parallel " + std::to_string(kThreads) + " --pbkdf-force-iterations " +
                  std::to_string(kPasses) + " ";
  kj::StringPtr path = bench.file.c_str();
  for (unsigned i = 0; i < runs; ++i) {
    bench.empty();
    Figures::add(format.ours, [&] {
      Device(path).format(kj::arrayPtr(&first, 1), {512, 512, "STATE"_kj, derivation});
    });
    Figures::add(open.ours,
                 [&] { KJ_ASSERT(Device(path).open(kj::arrayPtr(&first, 1), "", {}) != nullptr); });
    Figures::add(change.ours, [&] {
      Device device(path);
      device.add(second, first, derivation);
      KJ_ASSERT(device.fits(second));
      device.remove(first.slot, second);
    });
    bench.empty();
    Figures::add(format.theirs, [&] {
      bench.tool("luksFormat --type luks2 --cipher aes-xts-plain64 --key-size 512" + strength +
                 bench.file + " " + bench.first);
    });
    Figures::add(open.theirs, [&] {
      bench.tool("open --test-passphrase --key-file " + bench.first + " " + bench.file);
    });
    Figures::add(change.theirs, [&] {
      bench.tool("luksAddKey" + strength + "--new-key-slot 1 --key-file " + bench.first + " " +
                 bench.file + " " + bench.second);
      bench.tool("open --test-passphrase --key-slot 1 --key-file " + bench.second + " " +
                 bench.file);
      bench.tool("luksKillSlot --key-file " + bench.second + " " + bench.file + " 0");
    });
  }
  printf("{%s,%s,%s}\n", format.line("format").cStr(), open.line("open").cStr(),
         change.line("change").cStr());
}

}  // namespace
}  // namespace talos::luks

int main(int argc, char** argv) {
  return talos::bench::runMain(argc, argv, "luks-bench", "[RUNS]", [](auto& arguments) {
    arguments.expect(0, 1);
    talos::luks::run(arguments.numberOr(5, 1, "RUNS", 1, 1000));
  });
}
