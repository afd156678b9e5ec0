// A program that a bad image has in the place of another program. Its fault is a text in itself,
// which the test writes over the text below (system-images.cc):
//   exit             it ends at once
//   hang             it runs and does nothing
//   crash S PATH     it becomes PATH, and is killed after S seconds
//
// It makes only calls that the narrowest sandbox allows. The last fault is for machined: a sandbox
// lets no program become another.
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

namespace {

const volatile char fault[128] = "the fault of this program: exit";
constexpr size_t kMark = sizeof "the fault of this program: " - 1;

std::string faultText() {
  std::string text;
  for (size_t i = kMark; i < sizeof fault && fault[i] != '\0'; ++i) text += fault[i];
  return text;
}

std::string nextWord(std::string& text) {
  auto end = text.find(' ');
  auto word = text.substr(0, end);
  text.erase(0, end == std::string::npos ? end : end + 1);
  return word;
}

int say(const std::string& text, int status) {
  auto line = "a bad program: " + text + "\n";
  auto ignored = write(2, line.data(), line.size());
  (void)ignored;
  return status;
}

}  // namespace

int main(int, char** argv) {
  auto rest = faultText();
  auto kind = nextWord(rest);
  if (kind == "hang") {
    say("hangs", 0);
    for (;;) poll(nullptr, 0, -1);
  }
  if (kind != "crash") return say("exits", 1);
  auto seconds = nextWord(rest);
  signal(SIGALRM, SIG_DFL);
  sigset_t alarms;
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  sigprocmask(SIG_UNBLOCK, &alarms, nullptr);
  alarm(static_cast<unsigned>(atoi(seconds.c_str())));
  execv(rest.c_str(), argv);
  return say("cannot start " + rest, 1);
}
