#include "machined/disk/installer/boot-files.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "machined/platforms/platform.h"

namespace talos::install {
namespace {

constexpr kj::StringPtr kDefaults[] = {"init_on_alloc=1"_kj,
                                       "slab_nomerge"_kj,
                                       "pti=on"_kj,
                                       "consoleblank=0"_kj,
                                       "nvme_core.io_timeout=4294967295"_kj,
                                       "random.trust_cpu=on"_kj,
                                       "printk.devkmsg=on"_kj,
                                       "ima_template=ima-ng"_kj,
                                       "ima_appraise=fix"_kj,
                                       "ima_hash=sha512"_kj};

constexpr kj::StringPtr kMetalConsoles = "ttyS0 tty0"_kj;

kj::StringPtr consolesOf(kj::StringPtr platform) {
  KJ_IF_MAYBE (known, platforms::called(platform)) return known->consoles;
  return platform == "metal" ? kMetalConsoles : ""_kj;
}

struct ArmName {
  kj::StringPtr x86, arm64;
};
constexpr ArmName kArmNames[] = {{"ttyS0"_kj, "ttyAMA0"_kj}, {"pti=on"_kj, "kpti=on"_kj}};

kj::String named(kj::ArrayPtr<const char> argument, kj::StringPtr arch) {
  if (arch == "arm64") {
    for (auto& name : kArmNames) {
      if (argument == name.x86.asArray()) return kj::str(name.arm64);
    }
  }
  return kj::heapString(argument);
}

bool isConsole(kj::StringPtr argument) {
  return argument.startsWith("console=");
}

}  // namespace

// GRUB cannot count, so its steps are written out. If the count cannot be written, the slot is not
// tried, because it would be tried for ever. Only the slot on trial gets the arguments of a trial,
// not the slot that GRUB falls back to if it cannot load the former.
kj::String grubConfig() {
  kj::Vector<kj::String> steps;
  for (unsigned left = kMostTries; left > 0; --left) {
    steps.add(kj::str(left == kMostTries ? "  if" : "  elif", " [ \"$tries\" = ", left,
                      " ]; then\n    set tries=", left - 1,
                      "\n    if save_env tries; then set chosen=\"$try\"; fi\n"));
  }
  return kj::str(R"(set timeout=1
if [ ! -s "$prefix/grubenv" ]; then set slot=A; else load_env; fi
if [ "$slot" != B ]; then set slot=A; fi
set chosen="$slot"
if [ "$try" = A -o "$try" = B ]; then
)",
                 kj::strArray(steps, ""), R"(  fi
  if [ "$chosen" = "$try" -a "$chosen" != "$slot" ]; then
    if [ "$try" = A ]; then
      set trialA="talos.trial=$within panic=10"
    else
      set trialB="talos.trial=$within panic=10"
    fi
  fi
fi
menuentry A --id A {
  source /A/boot.cfg
}
menuentry B --id B {
  source /B/boot.cfg
}
if [ "$chosen" = A ]; then
  set default=0
  set fallback=1
else
  set default=1
  set fallback=0
fi
)");
}

kj::String bootEntry(Slot slot, kj::StringPtr arguments) {
  constexpr size_t kMostArguments = 1900;  // the kernel cuts at 2047; slot and trial follow
  if (arguments.size() > kMostArguments) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("the kernel arguments have ", arguments.size(), " bytes, and at most ",
                 kMostArguments, " fit; shorten machine.install.extraKernelArgs"));
  }
  auto folder = kj::str("/", nameOf(slot));
  kj::Vector<kj::String> quoted;
  size_t begin = 0;
  for (size_t i = 0; i <= arguments.size(); ++i) {
    if (i < arguments.size() && arguments[i] != ' ') continue;
    if (i > begin) quoted.add(kj::str(" '", arguments.slice(begin, i), "'"));
    begin = i + 1;
  }
  return kj::str("linux ", folder, "/vmlinuz", kj::strArray(quoted, ""),
                 " 'talos.slot=", nameOf(slot), "' $trial", nameOf(slot), "\ninitrd ", folder,
                 "/initramfs\n");
}

kj::String bootArguments(const ArgumentSources& sources) {
  kj::Vector<kj::String> result;
  result.add(kj::str("talos.platform=", sources.platform));
  if (sources.config.size() > 0 || !sources.sourceMayFollow) {
    result.add(kj::str("talos.config=", sources.config.size() > 0 ? sources.config : "none"_kj));
  }
  bool consoleGiven = false;
  for (auto argument : sources.extra) consoleGiven = consoleGiven || isConsole(argument);
  if (!consoleGiven) {
    for (auto rest = consolesOf(sources.platform); rest.size() > 0;) {
      auto end = rest.findFirst(' ').orDefault(rest.size());
      result.add(kj::str("console=", named(rest.slice(0, end), sources.arch)));
      rest = rest.slice(kj::min(end + 1, rest.size()));
    }
  }
  for (auto argument : kDefaults) result.add(named(argument, sources.arch));
  for (auto argument : sources.extra) result.add(kj::str(argument));
  return kj::strArray(result, " ");
}

}  // namespace talos::install
