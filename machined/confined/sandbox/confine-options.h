// The command line of the exec wrapper `confine`. Pure: arguments in, options out.
//
//   confine --uid=N [--gid=N] [--capabilities=a,b] [--seccomp=PROFILE] [--landlock-read=PATH]…
//           [--landlock-write=PATH]… [--landlock-list=PATH]… [--landlock-libraries=PATH]…
//           [--landlock-device=PATH]… [--landlock-tcp=none] [--rlimit=nofile=N]…
//           [--oom-score=N] [--lifetime=PID] [--output=none|socket] [--stop=first]
//           -- PROGRAM ARGUMENTS…
//
// landlock.h says what each --landlock- option allows. --landlock-tcp=none: no TCP is bound or
// connected; it needs one of the other --landlock- options.
//
// --lifetime: the program is killed when its parent dies, which is the process with this number; it
// is not started if the parent is already gone. --output=none: the program has no standard input,
// output and error, so it can write nothing into the log of its starter; =socket: output and error
// are descriptor 3.
//
// --stop=first: stops by SIGSTOP before anything else, so that a debugger can be attached.
//
// A value may also be the next argument. No-new-privileges is always set; the supplementary groups
// are always none; capabilities that are not named are dropped from every set, the bounding set
// included.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "machined/confined/sandbox/landlock.h"

namespace talos::confine {

struct Limit {
  int resource;
  rlim_t value;  // soft and hard
};

struct Options {
  uid_t uid = 0;
  gid_t gid = 0;                      // the uid's number, unless given
  kj::Vector<unsigned> capabilities;  // numbers of linux/capability.h
  kj::Maybe<kj::String> seccomp;      // name of a profile; nullptr: no filter
  LandlockPaths files;                // all empty: no Landlock
  bool withoutTcp = false;            // by Landlock
  kj::Vector<Limit> limits;
  kj::Maybe<int> oomScore;
  kj::Maybe<pid_t> parent;  // the process that it must not outlive
  enum class Output { kInherited, kNone, kSocket };
  Output output = Output::kInherited;
  bool stopFirst = false;
  kj::Vector<kj::String> command;  // the program is an absolute path
};

// Throws InvalidArgument with the mistake and the valid values.
Options parse(kj::ArrayPtr<const kj::StringPtr> arguments);

}  // namespace talos::confine
