// Runs programs for tests: with a deadline, their output captured, and without remaining processes.
#pragma once

#include <sys/types.h>

#include <compare>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace talos::harness {

struct Result {
  int status = -1;  // exit status; 128 + signal; -1 if it was killed at the deadline
  std::string out, err;
  double seconds = 0;
};

// Runs the program to its end, or kills it after `deadlineSeconds`.
Result run(const std::vector<std::string>& argv, double deadlineSeconds = 60,
           const std::vector<std::string>& extraEnvironment = {});

// How far a program may be ahead of the test.
enum class Pace {
  kFree,
  // stderr is a pipe for one write(2): while a line is unread, the program blocks in its next one.
  // When the test reads a line, at most the next line is written, and the work for the one after
  // it is done. So a test can end a program between two lines on a machine of any load.
  kLineByLine,
};

// A program that runs beside the test (`logs -f`).
class Background {
 public:
  explicit Background(const std::vector<std::string>& argv, Pace pace = Pace::kFree);
  ~Background();  // SIGKILL
  Background(const Background&) = delete;

  // Waits until the output so far satisfies the condition; returns false at the deadline.
  bool waitFor(const std::function<bool(const std::string& out, const std::string& err)>& condition,
               double deadlineSeconds);
  std::string out() const { return outText; }
  std::string err() const { return errText; }
  // Sends SIGINT and returns the exit status.
  int interrupt(double deadlineSeconds);
  // Sends SIGSTOP: the program does nothing until proceed(), and then sees all changes that the
  // test has made meanwhile.
  void pause() const;
  void proceed() const;
  // Returns the exit status when the program ends by itself; -1 at the deadline.
  int finish(double deadlineSeconds);

 private:
  pid_t pid = -1;
  int outFd = -1, errFd = -1;
  std::string outText, errText;
};

// Polls until the condition is true; returns false at the deadline. For conditions of another
// machine that are not announced.
bool eventually(const std::function<bool()>& condition, double deadlineSeconds,
                double stepSeconds = 0.1);

// Returns every process, but this one, whose command line has this text.
std::set<int> processesWith(const std::string& text);

// Returns the namespaces of these processes, as "net:[4026531840]".
std::set<std::string> namespacesOf(const std::set<pid_t>& pids);
// A process in one of some namespaces. The kernel reuses the number of a removed namespace, so only
// the processes that were in a namespace show whether it remains.
struct Inhabitant {
  pid_t pid;
  std::string began;  // ticks since the boot
  std::string in;
  auto operator<=>(const Inhabitant&) const = default;
};
std::set<Inhabitant> inhabitantsOf(const std::set<std::string>& namespaces);
// Returns true as long as one of them is in its namespace.
bool stay(const std::set<Inhabitant>& inhabitants);

// Returns the content of a file; empty if it does not exist.
std::string slurp(const std::string& path);

bool contains(const std::string& text, const std::string& part);
std::vector<std::string> lines(const std::string& text);

}  // namespace talos::harness
