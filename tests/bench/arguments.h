// For figures: arguments and exit of a program.
#pragma once

#include <kj/string.h>
#include <stdio.h>

#include "common/base/error.h"

namespace talos::bench {

// The arguments of a program, counted from 1. An argument that does not fit `usage` throws
// InvalidArgument with the mistake.
class Arguments {
 public:
  Arguments(int argc, char** argv, kj::StringPtr usage) : argc(argc), argv(argv), usage(usage) {}

  size_t count() const { return argc > 0 ? argc - 1 : 0; }
  kj::StringPtr text(size_t place) const { return place <= count() ? argv[place] : ""; }

  // Throws unless there are `least` to `most` arguments.
  void expect(size_t least, size_t most) const {
    if (count() < least || count() > most) refuse(kj::str(count(), " arguments"));
  }
  unsigned number(size_t place, kj::StringPtr name, unsigned least, unsigned most) const {
    KJ_IF_MAYBE (value, text(place).tryParseAs<unsigned>()) {
      if (*value >= least && *value <= most) return *value;
    }
    refuse(kj::str(name, " is a number from ", least, " to ", most, ", not \"", text(place), '"'));
  }
  unsigned numberOr(unsigned otherwise, size_t place, kj::StringPtr name, unsigned least,
                    unsigned most) const {
    return place > count() ? otherwise : number(place, name, least, most);
  }
  [[noreturn]] void refuse(kj::StringPtr what) const {
    fail(ErrorKind::kInvalidArgument, kj::str(what, "; usage: ", usage));
  }

 private:
  int argc;
  char** argv;
  kj::StringPtr usage;
};

// Runs all of main(): a failure is printed as a line that names the program, and the exit code is
// 1.
template <typename Run>
int runMain(int argc, char** argv, kj::StringPtr name, kj::StringPtr usage, Run&& run) {
  auto line = kj::str(name, ' ', usage);
  Arguments arguments(argc, argv, line);
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { run(arguments); })) {
    auto wrong = kindOf(*e) == ErrorKind::kInvalidArgument;
    fprintf(stderr, "%s: %s\n", name.cStr(), (wrong ? messageOf(*e) : kj::str(*e)).cStr());
    return 1;
  }
  return 0;
}

}  // namespace talos::bench
