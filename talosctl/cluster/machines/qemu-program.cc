#include "talosctl/cluster/machines/qemu-program.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <string>

#include "common/base/error.h"
#include "talosctl/cluster/processes/program-tree.h"

namespace talos::cluster {
namespace {

constexpr int kBootTimeout = 5;  // seconds until the kernel must have printed some text

// Returns true if a kernel that QEMU boots under KVM prints its first line.
bool kernelBoots(const Qemu& qemu, kj::StringPtr kernel) {
  kj::Vector<kj::String> arguments;
  for (kj::StringPtr argument :
       {"-nodefaults"_kj, "-no-user-config"_kj, "-nographic"_kj, "-no-reboot"_kj, "-M"_kj, "q35"_kj,
        "-accel"_kj, "kvm"_kj, "-cpu"_kj, "host"_kj, "-m"_kj, "256"_kj, "-serial"_kj, "stdio"_kj,
        "-append"_kj, "console=ttyS0 earlyprintk=ttyS0 panic=-1"_kj, "-kernel"_kj, kernel}) {
    arguments.add(kj::str(argument));
  }
  auto command = commandLine(qemu, arguments);
  kj::Vector<char*> argv;
  for (auto& argument : command) argv.add(argument.begin());
  argv.add(nullptr);
  int ends[2];
  KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
  kj::AutoCloseFd reading(ends[0]), writing(ends[1]);
  pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(writing, 1);
    dup2(null, 2);
    execv(argv[0], argv.begin());
    _exit(127);
  }
  writing = nullptr;
  bool booted = false;
  std::string output;
  time_t until = time(nullptr) + kBootTimeout;
  while (child > 0 && !booted && time(nullptr) < until) {
    struct pollfd p = {reading, POLLIN, 0};
    if (poll(&p, 1, 200) <= 0) continue;
    char chunk[4096];
    ssize_t n = read(reading, chunk, sizeof chunk);
    if (n <= 0) break;
    output.append(chunk, n);
    booted = output.find("Linux version") != std::string::npos;
  }
  if (child > 0) {
    kill(child, SIGKILL);
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  return booted;
}

}  // namespace

kj::Vector<kj::String> commandLine(const Qemu& qemu, kj::ArrayPtr<const kj::String> arguments) {
  auto command = inTree(qemu.root, qemu.program);
  if (qemu.root.size() > 0) {
    for (auto folder : {"qemu", "seabios"}) {
      command.add(kj::str("-L"));
      command.add(kj::str(qemu.root, "/usr/share/", folder));
    }
  }
  for (auto& argument : arguments) command.add(kj::str(argument));
  return command;
}

bool kvmWorks(const Qemu& qemu, kj::StringPtr kernel) {
  return access("/dev/kvm", R_OK | W_OK) == 0 && kernelBoots(qemu, kernel);
}

Qemu findQemu(kj::StringPtr root) {
  constexpr kj::StringPtr kProgram = "/usr/bin/qemu-system-x86_64"_kj;
  auto found = findProgram(root, kProgram, root.size() == 0,
                           "run `make` in the checkout, or use --qemu-root");
  return {kj::mv(found.root), kj::mv(found.program)};
}

}  // namespace talos::cluster
