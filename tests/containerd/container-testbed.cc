#include "tests/containerd/container-testbed.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "machined/process1/init/init-loop.h"
#include "tests/harness/process.h"

namespace talos::test {
namespace {

void must(bool ok, const char* what) {
  if (ok) return;
  fprintf(stderr, "container testbed: cannot %s: %s\n", what, strerror(errno));
  _exit(99);
}

[[noreturn]] void become(const std::string& brain, const std::string& folder,
                         const std::vector<ContainerTestbed::Service>& services) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // also with a test that is killed
  must(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "make mounts private");
  must(mount("proc", "/proc", "proc", 0, nullptr) == 0, "mount /proc");
  int console =
      open((folder + "/console").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  must(console >= 0, "open the console");
  static std::vector<std::string> texts = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                                           "FOLDER=" + folder};
  for (size_t i = 0; i < services.size(); ++i) {
    texts.push_back("SERVICE" + std::to_string(i) + "=" + services[i].id);
    texts.push_back("IMAGE" + std::to_string(i) + "=" + services[i].image);
  }
  static std::vector<char*> environment;
  for (auto& text : texts) environment.push_back(text.data());
  environment.push_back(nullptr);
  process1::Settings settings;
  settings.brain = brain.c_str();
  settings.brainEnvironment = environment.data();
  settings.cgroupRoot = "";
  settings.brainOutput = console;
  settings.backsOff = false;  // it is killed on purpose
  static auto* loop = new process1::Loop(settings, process1::Console(console, "", false));
  loop->run();
}

// Removes the cgroup and those in it, of each hierarchy: no process is in them any more.
void removeCgroup(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.is_directory(ignored)) removeCgroup(entry.path());
  }
  rmdir(folder.c_str());
}
void removeCgroups(const std::string& name) {
  std::error_code ignored;
  for (auto& hierarchy : std::filesystem::directory_iterator("/sys/fs/cgroup", ignored)) {
    removeCgroup(hierarchy.path() / "system" / name);
    rmdir((hierarchy.path() / "system").c_str());
  }
}

}  // namespace

ContainerTestbed::ContainerTestbed(const std::string& brain, const std::string& folder,
                                   const std::vector<Service>& services)
    : folder(folder), services(services) {
  struct clone_args args = {};
  args.flags = CLONE_NEWPID | CLONE_NEWNS;
  args.exit_signal = SIGCHLD;
  long pid = syscall(SYS_clone3, &args, sizeof(args));
  if (pid < 0) throw std::runtime_error("cannot make the namespaces; this needs root");
  if (pid == 0) become(brain, folder, services);
  init = static_cast<int>(pid);
}

ContainerTestbed::~ContainerTestbed() {
  if (init > 0) {
    kill(init, SIGKILL);  // the kernel ends its namespaces with it
    waitpid(init, nullptr, 0);
  }
  for (auto& service : services) removeCgroups(service.id);
  if (!podCgroup.empty()) removeCgroups(podCgroup);
}

int ContainerTestbed::process(const std::string& name) const {
  auto own = "/proc/" + std::to_string(init) + "/task/" + std::to_string(init) + "/children";
  std::istringstream children(harness::slurp(own));
  for (int pid; children >> pid;) {
    if (harness::slurp("/proc/" + std::to_string(pid) + "/comm") == name + "\n") return pid;
  }
  return 0;
}

bool ContainerTestbed::powerOff(double deadlineSeconds) {
  kill(init, SIGTERM);
  bool ended = harness::eventually([&]() { return waitpid(init, nullptr, WNOHANG) == init; },
                                   deadlineSeconds);
  if (ended) init = -1;
  return ended;
}

std::string ContainerTestbed::console() const {
  return harness::slurp(folder + "/console");
}

}  // namespace talos::test
