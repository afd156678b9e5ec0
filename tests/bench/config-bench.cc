// Reading a machine config: parse and validate one of about 20 KB, beside what yaml-cpp and libyaml
// take to load the same text and check nothing; and the worst that documents made to be bad can do.
//
//   config-bench [RUNS]   prints {"bytes":N,"ours":{"p50us":…},"yamlCpp":…,"libyaml":…,
//                         "hostile":[{"name":…,"ms":…,"KiB":…}]}
//
// All times are processor time. Each hostile document is read in a separate process: KiB is the
// growth of its memory.
//
// link: talosctl-config yaml
#include <kj/debug.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>
#include <yaml.h>

#include <algorithm>
#include <string>

#include "common/config/config-generate.h"
#include "common/config/config.h"
#include "talosctl/config/patch.h"
#include "tests/bench/arguments.h"

namespace talos::config {
namespace {

// Returns processor time: this program does not wait, and the load of the machine is no property of
// the parser.
uint64_t nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000ull + now.tv_nsec;
}

// A control-plane config as it is generated, with links, files and mirrors of a larger machine.
kj::String document() {
  auto text = machineConfig(makeSecrets(), MachineType::CONTROLPLANE, "bench",
                            "https://10.5.0.2:6443", {.kubernetesVersion = "1.20.6"});
  kj::Vector<kj::String> parts;
  parts.add(kj::str("machine:\n  network:\n    interfaces:\n"));
  for (int i = 0; i < 24; ++i) {
    parts.add(kj::str("      - interface: eth", i, "\n        cidr: 10.", i,
                      ".0.2/24\n        mtu: 9000\n        routes:\n          - network: 172.", i,
                      ".0.0/16\n            gateway: 10.", i,
                      ".0.1\n        vlans:\n          - vlanId: 100\n            cidr: 10.1", i,
                      ".0.2/24\n            dhcp: false\n"));
  }
  parts.add(kj::str("  files:\n"));
  for (int i = 0; i < 24; ++i) {
    parts.add(kj::str("    - path: /var/etc/file", i,
                      "\n      permissions: 0o644\n      op: create",
                      "\n      content: |\n        [section]\n        key = value\n"));
  }
  parts.add(kj::str("  sysctls:\n"));
  for (int i = 0; i < 40; ++i) parts.add(kj::str("    net.ipv4.key", i, ": \"", i, "\"\n"));
  Problems problems;
  auto patched = applyPatch(text, kj::strArray(parts, ""), problems);
  KJ_IF_MAYBE (whole, patched) return kj::mv(*whole);
  KJ_FAIL_ASSERT("the document cannot be made", render(problems));
}

template <typename F>
double medianMicroseconds(unsigned runs, F&& work) {
  kj::Vector<uint64_t> took;
  for (unsigned i = 0; i < runs + 20; ++i) {  // the first ones warm up
    auto began = nanoseconds();
    work();
    if (i >= 20) took.add(nanoseconds() - began);
  }
  std::sort(took.begin(), took.end());
  return took[took.size() / 2] / 1e3;
}

void loadWithLibyaml(kj::StringPtr text) {
  yaml_parser_t parser;
  yaml_document_t loaded;
  KJ_ASSERT(yaml_parser_initialize(&parser));
  yaml_parser_set_input_string(&parser, text.asBytes().begin(), text.size());
  KJ_ASSERT(yaml_parser_load(&parser, &loaded));
  yaml_document_delete(&loaded);
  yaml_parser_delete(&parser);
}

struct Hostile {
  const char* name;
  std::string text;
};

std::string repeated(std::string part, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += part;
  return text;
}

std::vector<Hostile> hostileDocuments() {
  constexpr size_t kMiB = 1u << 20;
  std::string bomb = "machine: &a0 [x, x, x, x, x, x, x, x]\n", keys = "machine:\n  sysctls:\n";
  for (int i = 1; i < 30; ++i) {
    auto inner = "*a" + std::to_string(i - 1);
    bomb += "k" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + inner;
    for (int k = 0; k < 7; ++k) bomb += ", " + inner;
    bomb += "]\n";
  }
  for (int i = 0; i < 90'000; ++i) keys += "    k" + std::to_string(i) + ": v\n";
  std::string unknown = "machine:\n", nested = "machine:\n", noise(kMiB, ' ');
  for (int i = 0; i < 90'000; ++i) unknown += "  k" + std::to_string(i) + ": v\n";
  for (int i = 1; i < 2000; ++i) nested += std::string(i, ' ') + "k:\n";
  uint32_t state = 1;
  for (auto& c : noise) {
    state = state * 1664525 + 1013904223;
    c = " \n:-{}[]'\"#&*!|>abc"[(state >> 16) % 20];
  }
  return {
      {"2000 nested mappings", nested},
      {"1 MiB of [", std::string(kMiB, '[')},
      {"1 MiB of {", std::string(kMiB, '{')},
      {"1 MiB of '- '", repeated("- ", kMiB)},
      {"alias bomb, 8^30 values", bomb},
      {"1 MiB of YAML's own characters", noise},
      {"1 MiB of tabs", std::string(kMiB, '\t')},
      {"1 MiB of 'a: '", repeated("a: ", kMiB)},
      {"90 000 sysctls", keys},
      {"90 000 unknown keys", unknown},
      {"a text of 4 MB", "machine:\n  token: " + std::string(4'000'000, 'x') + "\n"},
      {"a quoted text of 4 MB", "machine:\n  token: \"" + std::string(4'000'000, 'x') + "\"\n"},
      {"4 MB that are a comment", "#" + std::string(4'000'000, 'x')},
      {"1 MiB of list items", "machine:\n  certSANs:\n" + repeated("  - a\n", kMiB)},
      {"1 MiB of a list in brackets", "machine:\n  certSANs: [" + repeated("a,", kMiB) + "]\n"}};
}

// Measures a process that only reads the document.
kj::String measure(const Hostile& hostile) {
  int ends[2];
  KJ_SYSCALL(pipe(ends));
  pid_t pid;
  KJ_SYSCALL(pid = fork());
  if (pid == 0) {
    auto peak = [] {
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      return usage.ru_maxrss;
    };
    long before = peak();
    auto began = nanoseconds();
    {
      auto config = parse(kj::arrayPtr(hostile.text.data(), hostile.text.size()), "hostile");
      render(config.problems());
    }
    double milliseconds = (nanoseconds() - began) / 1e6;
    char line[200];
    int size = snprintf(line, sizeof line, "{\"name\":\"%s\",\"ms\":%.1f,\"KiB\":%ld}",
                        hostile.name, milliseconds, peak() - before);
    _exit(write(ends[1], line, size) == size ? 0 : 1);
  }
  close(ends[1]);
  char line[200];
  ssize_t size = read(ends[0], line, sizeof line - 1);
  close(ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  KJ_ASSERT(size > 0 && status == 0, "the reader of a hostile document died", hostile.name, status);
  return kj::heapString(line, size);
}

void run(unsigned runs) {
  kj::Vector<kj::String> hostile;
  for (auto& document : hostileDocuments()) hostile.add(measure(document));

  auto text = document();
  std::string copy(text.cStr(), text.size());
  double ours = medianMicroseconds(runs, [&] {
    auto config = parse(text, "controlplane.yaml");
    Problems problems;
    checkMode(config, Mode::kMetal, "controlplane.yaml", problems);
    KJ_ASSERT(config.good() && problems.size() == 0, render(config.problems()));
  });
  double yamlCpp = medianMicroseconds(runs, [&] { YAML::Load(copy); });
  double libyaml = medianMicroseconds(runs, [&] { loadWithLibyaml(text); });
  printf(
      "{\"bytes\":%zu,\"ours\":{\"p50us\":%.1f},\"yamlCpp\":{\"p50us\":%.1f},"
      "\"libyaml\":{\"p50us\":%.1f},\"hostile\":[%s]}\n",
      text.size(), ours, yamlCpp, libyaml, kj::strArray(hostile, ",").cStr());
}

}  // namespace
}  // namespace talos::config

int main(int argc, char** argv) {
  return talos::bench::runMain(argc, argv, "config-bench", "[RUNS]", [](auto& arguments) {
    arguments.expect(0, 1);
    talos::config::run(arguments.numberOr(300, 1, "RUNS", 1, 1'000'000));
  });
}
