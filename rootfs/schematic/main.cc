// Prints the plan of an image from its schematic (rootfs/schematic.sh):
//   schematic NAME EXTENSION… <FILE
// NAME: the file's name in messages; EXTENSION: those that can be made. A line of output is
// "argument ARGUMENT" or "extension NAME".
#include <kj/io.h>
#include <stdio.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/standard-streams.h"
#include "rootfs/schematic/schematic.h"

namespace {

using namespace talos;

// Returns the exit status.
int printPlan(kj::ArrayPtr<const kj::StringPtr> words) {
  if (words.size() == 0) fail(ErrorKind::kInvalidArgument, "usage: NAME EXTENSION... <FILE");
  constexpr uint64_t kMostBytes = 1u << 20;
  auto text = kj::FdInputStream(STDIN_FILENO).readAllText(kMostBytes);
  auto known = KJ_MAP(word, words.slice(1, words.size())) {
    return kj::str(word);
  };
  Problems problems;
  auto plan = extension::planOf(text, words[0], known, problems);
  fprintf(stderr, "%s", render(problems).cStr());
  if (hasErrors(problems)) return 1;
  for (auto& argument : plan.arguments) printf("argument %s\n", argument.cStr());
  for (auto& name : plan.extensions) printf("extension %s\n", name.cStr());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  openClosedStandardStreams();
  int status = 1;
  auto failure = kj::runCatchingExceptions([&] {
    auto words = KJ_MAP(word, kj::arrayPtr(argv, argc).slice(1, argc)) {
      return kj::StringPtr(word);
    };
    status = printPlan(words);
  });
  KJ_IF_MAYBE (e, failure) fprintf(stderr, "schematic: %s\n", messageOf(*e).cStr());
  return status;
}
