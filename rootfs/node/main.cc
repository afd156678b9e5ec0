// All programs of a node in one file: it is the one under whose name it was started.
#include <stdio.h>
#include <string.h>

#include <string_view>

#include "common/base/standard-streams.h"

// Each is the main() of a program; whether it takes the arguments is its own affair.
#define PROGRAM(name, identifier) int identifier##Main(int argc, char** argv);
#include "node-programs.inc"
#undef PROGRAM

int main(int argc, char** argv) {
  talos::openClosedStandardStreams();
  const char* path = argc > 0 ? argv[0] : "";
  const char* slash = strrchr(path, '/');
  std::string_view name = slash == nullptr ? path : slash + 1;
#define PROGRAM(program, identifier) \
  if (name == (program)) return identifier##Main(argc, argv);
#include "node-programs.inc"
#undef PROGRAM
  fprintf(stderr, "no program of this node is called \"%s\"\n", path);
  return 127;
}
