#include "tests/harness/process.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace talos::harness {
namespace {

std::set<pid_t> everyProcess() {
  std::set<pid_t> all;
  for (auto& entry : std::filesystem::directory_iterator("/proc")) {
    auto pid = atoi(entry.path().filename().c_str());
    if (pid > 0) all.insert(pid);
  }
  return all;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Child {
  pid_t pid;
  int out, err;
};

Child start(const std::vector<std::string>& argv, const std::vector<std::string>& extra,
            Pace pace = Pace::kFree) {
  int out[2], err[2];
  KJ_SYSCALL(pipe2(out, O_CLOEXEC));
  if (pace == Pace::kLineByLine) {
    // pipe(2): with O_DIRECT each write(2) takes a whole page, and this pipe has one page.
    KJ_SYSCALL(pipe2(err, O_CLOEXEC | O_DIRECT));
    KJ_SYSCALL(fcntl(err[1], F_SETPIPE_SZ, 1));
  } else {
    KJ_SYSCALL(pipe2(err, O_CLOEXEC));
  }
  std::vector<char*> arguments;
  for (auto& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  pid_t pid;
  KJ_SYSCALL(pid = fork());
  if (pid == 0) {
    int null = open("/dev/null", O_RDONLY);
    dup2(null, 0);
    dup2(out[1], 1);
    dup2(err[1], 2);
    signal(SIGPIPE, SIG_DFL);
    for (auto& entry : extra) putenv(const_cast<char*>(entry.c_str()));
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  close(out[1]);
  close(err[1]);
  return {pid, out[0], err[0]};
}

enum class Streams { kRead, kSilent, kEnded };

// Reads the output that arrives within `seconds`; closes a stream at its end (fd = -1).
Streams readSome(int& out, std::string& outText, int& err, std::string& errText, double seconds) {
  struct pollfd fds[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
  if (out < 0 && err < 0) return Streams::kEnded;
  if (poll(fds, 2, static_cast<int>(seconds * 1000) + 1) <= 0) return Streams::kSilent;
  auto take = [](int& fd, std::string& text) {
    char buffer[65536];
    ssize_t n = read(fd, buffer, sizeof buffer);
    if (n > 0) {
      text.append(buffer, n);
    } else {
      close(fd);
      fd = -1;
    }
  };
  if (fds[0].revents != 0) take(out, outText);
  if (fds[1].revents != 0) take(err, errText);
  return Streams::kRead;
}

// Reads the last output of a program that has exited. It is in the pipes, so the time limits matter
// only when they are empty, or a grandchild keeps them open and continues to write.
void readTheRest(int& out, std::string& outText, int& err, std::string& errText) {
  constexpr double kGrandchild = 0.2, kAtMost = 10;
  auto begin = now();
  for (;;) {
    auto got = readSome(out, outText, err, errText, 0.05);
    if (got == Streams::kEnded || now() > begin + kAtMost) return;
    if (got == Streams::kSilent && now() > begin + kGrandchild) return;
  }
}

int statusOf(int raw) {
  return WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
}

}  // namespace

Result run(const std::vector<std::string>& argv, double deadlineSeconds,
           const std::vector<std::string>& extraEnvironment) {
  Result result;
  auto began = now();
  auto child = start(argv, extraEnvironment);
  bool late = false;
  while (readSome(child.out, result.out, child.err, result.err, 0.2) != Streams::kEnded) {
    int raw;
    if (!late && now() - began > deadlineSeconds) {
      late = true;
      kill(child.pid, SIGKILL);
    }
    if (waitpid(child.pid, &raw, WNOHANG) == child.pid) {
      result.status = late ? -1 : statusOf(raw);
      readTheRest(child.out, result.out, child.err, result.err);
      if (child.out >= 0) close(child.out);
      if (child.err >= 0) close(child.err);
      result.seconds = now() - began;
      return result;
    }
  }
  // The program has closed both streams, and may still run.
  int raw = 0;
  if (!late && !eventually([&] { return waitpid(child.pid, &raw, WNOHANG) == child.pid; },
                           began + deadlineSeconds - now(), 0.01)) {
    late = true;
    kill(child.pid, SIGKILL);
  }
  if (late) waitpid(child.pid, &raw, 0);
  result.status = late ? -1 : statusOf(raw);
  result.seconds = now() - began;
  return result;
}

Background::Background(const std::vector<std::string>& argv, Pace pace) {
  auto child = start(argv, {}, pace);
  pid = child.pid;
  outFd = child.out;
  errFd = child.err;
}

Background::~Background() {
  if (pid > 0) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  if (outFd >= 0) close(outFd);
  if (errFd >= 0) close(errFd);
}

bool Background::waitFor(
    const std::function<bool(const std::string&, const std::string&)>& condition,
    double deadlineSeconds) {
  auto end = now() + deadlineSeconds;
  while (!condition(outText, errText)) {
    if (now() > end) return false;
    if (readSome(outFd, outText, errFd, errText, 0.1) == Streams::kEnded) {
      return condition(outText, errText);
    }
  }
  return true;
}

int Background::interrupt(double deadlineSeconds) {
  kill(pid, SIGINT);
  return finish(deadlineSeconds);
}

void Background::pause() const {
  kill(pid, SIGSTOP);
}

void Background::proceed() const {
  kill(pid, SIGCONT);
}

int Background::finish(double deadlineSeconds) {
  auto end = now() + deadlineSeconds;
  int raw;
  while (waitpid(pid, &raw, WNOHANG) == 0) {
    if (now() > end) return -1;
    readSome(outFd, outText, errFd, errText, 0.05);
  }
  pid = -1;
  readTheRest(outFd, outText, errFd, errText);
  return statusOf(raw);
}

bool eventually(const std::function<bool()>& condition, double deadlineSeconds,
                double stepSeconds) {
  auto end = now() + deadlineSeconds;
  while (!condition()) {
    if (now() > end) return false;
    timespec pause = {static_cast<time_t>(stepSeconds),
                      static_cast<long>((stepSeconds - static_cast<time_t>(stepSeconds)) * 1e9)};
    nanosleep(&pause, nullptr);
  }
  return true;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

std::set<int> processesWith(const std::string& text) {
  std::set<int> found;
  for (auto pid : everyProcess()) {
    auto command = slurp("/proc/" + std::to_string(pid) + "/cmdline");
    if (contains(command, text) && pid != getpid()) found.insert(pid);
  }
  return found;
}

std::set<std::string> namespacesOf(const std::set<pid_t>& pids) {
  std::set<std::string> all;
  for (auto pid : pids) {
    for (auto kind : {"net", "mnt", "pid", "uts", "ipc", "cgroup"}) {
      std::error_code ignored;
      auto link =
          std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/ns/" + kind, ignored);
      if (!link.empty()) all.insert(link.string());
    }
  }
  return all;
}

std::set<Inhabitant> inhabitantsOf(const std::set<std::string>& namespaces) {
  std::set<Inhabitant> all;
  for (auto pid : everyProcess()) {
    for (auto& each : namespacesOf({pid})) {
      if (!namespaces.contains(each)) continue;
      auto stat = slurp("/proc/" + std::to_string(pid) + "/stat");
      // proc_pid_stat(5): the 20th field after the command's parenthesis.
      std::istringstream fields(stat.substr(std::min(stat.rfind(')') + 2, stat.size())));
      std::string began;
      for (int i = 0; i < 20; ++i) fields >> began;
      all.insert({pid, began, each});
    }
  }
  return all;
}

bool stay(const std::set<Inhabitant>& inhabitants) {
  std::set<std::string> namespaces;
  for (auto& one : inhabitants) namespaces.insert(one.in);
  for (auto& one : inhabitantsOf(namespaces)) {
    if (inhabitants.contains(one)) return true;
  }
  return false;
}

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

}  // namespace talos::harness
