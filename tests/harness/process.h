// Runs programs for tests: with a deadline, output captured, nothing left behind.
#pragma once

#include <sys/types.h>

#include <compare>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace talos::harness {

struct Result {
  int status = -1;  // exit status; 128 + signal; -1 when the deadline ended it
  std::string out, err;
  double seconds = 0;
};

// Runs to the end, or kills it after `deadlineSeconds`.
Result run(const std::vector<std::string>& argv, double deadlineSeconds = 60,
           const std::vector<std::string>& extraEnvironment = {});

// A program that runs while the test does something else (`logs -f`).
class Background {
 public:
  explicit Background(const std::vector<std::string>& argv);
  ~Background();  // SIGKILL
  Background(const Background&) = delete;

  // Waits until the output so far satisfies the condition; false at the deadline.
  bool waitFor(const std::function<bool(const std::string& out, const std::string& err)>& condition,
               double deadlineSeconds);
  std::string out() const { return outText; }
  std::string err() const { return errText; }
  // SIGINT, then the exit status.
  int interrupt(double deadlineSeconds);
  // SIGSTOP: it does nothing until proceed(), so that what the test changes meanwhile is there when
  // it continues.
  void pause() const;
  void proceed() const;
  // Its exit status when it ends by itself; -1 at the deadline.
  int finish(double deadlineSeconds);

 private:
  pid_t pid = -1;
  int outFd = -1, errFd = -1;
  std::string outText, errText;
};

// Polls until true; false at the deadline. For conditions of another machine that nothing
// announces.
bool eventually(const std::function<bool()>& condition, double deadlineSeconds,
                double stepSeconds = 0.1);

// Every process, but this one, whose command line has this text.
std::set<int> processesWith(const std::string& text);

// The namespaces that these processes are in, as "net:[4026531840]".
std::set<std::string> namespacesOf(const std::set<pid_t>& pids);
// A process in one of some namespaces. The kernel gives the number of a namespace that is gone to
// the next one, so whether one is left is told by the processes that were in it.
struct Inhabitant {
  pid_t pid;
  std::string began;  // ticks since the boot
  std::string in;
  auto operator<=>(const Inhabitant&) const = default;
};
std::set<Inhabitant> inhabitantsOf(const std::set<std::string>& namespaces);
// True as long as one of them is where it was.
bool stay(const std::set<Inhabitant>& inhabitants);

// The content of a file; empty when there is none.
std::string slurp(const std::string& path);

bool contains(const std::string& text, const std::string& part);
std::vector<std::string> lines(const std::string& text);

}  // namespace talos::harness
