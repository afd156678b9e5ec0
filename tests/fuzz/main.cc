// All fuzz targets as one program:  fuzz NAME [libFuzzer's options and corpus folders]
#include <kj/exception.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

using Target = int (*)(const uint8_t* data, size_t size);

#define X(name) extern "C" int fuzz_##name(const uint8_t* data, size_t size);
#include "fuzz-targets.inc"
#undef X

struct Named {
  const char* name;
  Target run;
};
constexpr Named kTargets[] = {
#define X(name) {#name, fuzz_##name},
#include "fuzz-targets.inc"
#undef X
};

static Target chosen = nullptr;  // libFuzzer's interface has no place for it

// Each exception makes the sanitizer walk its copies of stack frames: with the smallest number of
// them a target that throws in every run is a fifth quicker.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "max_uar_stack_size_log=16";
}

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (auto& target : kTargets) {
    if (*argc > 1 && strcmp((*argv)[1], target.name) == 0) chosen = target.run;
  }
  if (chosen == nullptr) {
    fprintf(stderr, "fuzz: name a target:");
    for (auto& target : kTargets) fprintf(stderr, " %s", target.name);
    fprintf(stderr, "\n");
    exit(1);
  }
  (*argv)[1] = (*argv)[0];
  ++*argv;
  --*argc;
  return 0;
}

namespace {

// The stack traces of exceptions that a target catches are not read, and walking the stack for them
// takes a good part of a run.
class WithoutTraces final : public kj::ExceptionCallback {
 public:
  StackTraceMode stackTraceMode() override { return StackTraceMode::NONE; }
};

}  // namespace

// KJ wants a callback on the stack, where the sanitizer's copies of frames are not.
extern "C" __attribute__((no_sanitize("address"))) int LLVMFuzzerTestOneInput(const uint8_t* data,
                                                                              size_t size) {
  WithoutTraces quiet;
  return chosen(data, size);
}
