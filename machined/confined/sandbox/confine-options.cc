#include "machined/confined/sandbox/confine-options.h"

#include <linux/capability.h>

#include "common/base/error.h"

namespace talos::confine {
namespace {

struct Name {
  kj::StringPtr name;
  int value;
};

constexpr Name kCapabilities[] = {
    {"chown"_kj, CAP_CHOWN},
    {"dac_override"_kj, CAP_DAC_OVERRIDE},
    {"dac_read_search"_kj, CAP_DAC_READ_SEARCH},
    {"fowner"_kj, CAP_FOWNER},
    {"ipc_lock"_kj, CAP_IPC_LOCK},
    {"kill"_kj, CAP_KILL},
    {"mknod"_kj, CAP_MKNOD},
    {"net_admin"_kj, CAP_NET_ADMIN},
    {"net_bind_service"_kj, CAP_NET_BIND_SERVICE},
    {"net_raw"_kj, CAP_NET_RAW},
    {"setpcap"_kj, CAP_SETPCAP},
    {"sys_admin"_kj, CAP_SYS_ADMIN},
    {"sys_module"_kj, CAP_SYS_MODULE},
    {"sys_nice"_kj, CAP_SYS_NICE},
    {"sys_ptrace"_kj, CAP_SYS_PTRACE},
    {"sys_rawio"_kj, CAP_SYS_RAWIO},
    {"sys_resource"_kj, CAP_SYS_RESOURCE},
    {"sys_time"_kj, CAP_SYS_TIME},
    {"syslog"_kj, CAP_SYSLOG},
};

constexpr Name kLimits[] = {
    {"as"_kj, RLIMIT_AS},         {"core"_kj, RLIMIT_CORE},   {"cpu"_kj, RLIMIT_CPU},
    {"data"_kj, RLIMIT_DATA},     {"fsize"_kj, RLIMIT_FSIZE}, {"memlock"_kj, RLIMIT_MEMLOCK},
    {"nofile"_kj, RLIMIT_NOFILE}, {"nproc"_kj, RLIMIT_NPROC}, {"stack"_kj, RLIMIT_STACK},
};

int find(kj::ArrayPtr<const Name> names, kj::StringPtr name, kj::StringPtr what) {
  for (auto& n : names) {
    if (n.name == name) return n.value;
  }
  auto known = kj::strArray(KJ_MAP(n, names) { return n.name; }, ", ");
  fail(ErrorKind::kInvalidArgument,
       kj::str("\"", name, "\" is not a valid ", what, "; use one of ", known));
}

template <typename T>
T number(kj::StringPtr option, kj::StringPtr text) {
  KJ_IF_MAYBE (value, text.tryParseAs<T>()) {
    return *value;
  }
  fail(ErrorKind::kInvalidArgument, kj::str(option, " needs a number, not \"", text, "\""));
}

kj::Vector<kj::String> split(kj::StringPtr text, char separator) {
  kj::Vector<kj::String> parts;
  while (text.size() > 0) {
    size_t end = text.findFirst(separator).orDefault(text.size());
    parts.add(kj::heapString(text.slice(0, end)));
    text = end == text.size() ? ""_kj : text.slice(end + 1);
  }
  return parts;
}

kj::String absolute(kj::StringPtr option, kj::StringPtr path) {
  if (path.startsWith("/")) return kj::str(path);
  fail(ErrorKind::kInvalidArgument, kj::str(option, " needs an absolute path, not \"", path, "\""));
}

void set(Options& options, kj::StringPtr name, kj::StringPtr value, bool& gidGiven) {
  if (name == "--uid") {
    options.uid = number<uid_t>(name, value);
  } else if (name == "--gid") {
    options.gid = number<gid_t>(name, value);
    gidGiven = true;
  } else if (name == "--capabilities") {
    for (auto& c : split(value, ',')) {
      options.capabilities.add(static_cast<unsigned>(find(kCapabilities, c, "capability")));
    }
  } else if (name == "--seccomp") {
    options.seccomp = kj::str(value);
  } else if (name == "--landlock-read") {
    options.files.read.add(absolute(name, value));
  } else if (name == "--landlock-write") {
    options.files.write.add(absolute(name, value));
  } else if (name == "--landlock-list") {
    options.files.list.add(absolute(name, value));
  } else if (name == "--landlock-libraries") {
    options.files.libraries.add(absolute(name, value));
  } else if (name == "--landlock-device") {
    options.files.devices.add(absolute(name, value));
  } else if (name == "--landlock-tcp") {
    if (value != "none") {
      fail(ErrorKind::kInvalidArgument,
           kj::str("--landlock-tcp must be none, not \"", value, "\""));
    }
    options.withoutTcp = true;
  } else if (name == "--rlimit") {
    auto parts = split(value, '=');
    if (parts.size() != 2) {
      fail(ErrorKind::kInvalidArgument,
           kj::str("--rlimit needs NAME=NUMBER, for example nofile=1024, not \"", value, "\""));
    }
    options.limits.add(Limit{find(kLimits, parts[0], "limit"), number<rlim_t>(name, parts[1])});
  } else if (name == "--oom-score") {
    int score = number<int>(name, value);
    if (score < -1000 || score > 1000) {
      fail(ErrorKind::kInvalidArgument, kj::str("--oom-score must be -1000 to 1000, not ", score));
    }
    options.oomScore = score;
  } else if (name == "--lifetime") {
    options.parent = number<pid_t>(name, value);
  } else if (name == "--output") {
    if (value != "none" && value != "socket") {
      fail(ErrorKind::kInvalidArgument,
           kj::str("--output must be none or socket, not \"", value, "\""));
    }
    options.output = value == "none" ? Options::Output::kNone : Options::Output::kSocket;
  } else if (name == "--stop") {
    if (value != "first") {
      fail(ErrorKind::kInvalidArgument, kj::str("--stop must be first, not \"", value, "\""));
    }
    options.stopFirst = true;
  } else {
    fail(ErrorKind::kInvalidArgument, kj::str("unknown option ", name));
  }
}

}  // namespace

Options parse(kj::ArrayPtr<const kj::StringPtr> arguments) {
  Options options;
  bool uidGiven = false, gidGiven = false;
  size_t i = 0;
  for (; i < arguments.size() && arguments[i] != "--"; ++i) {
    auto argument = arguments[i];
    if (!argument.startsWith("--")) {
      fail(ErrorKind::kInvalidArgument,
           kj::str("\"", argument, "\" is not an option; the program comes after --"));
    }
    kj::String name = kj::str(argument);
    kj::StringPtr value;
    KJ_IF_MAYBE (equals, argument.findFirst('=')) {
      name = kj::heapString(argument.slice(0, *equals));
      value = argument.slice(*equals + 1);
    } else if (i + 1 < arguments.size() && arguments[i + 1] != "--") {
      value = arguments[++i];
    } else {
      fail(ErrorKind::kInvalidArgument, kj::str(name, " needs a value"));
    }
    set(options, name, value, gidGiven);
    uidGiven = uidGiven || name == "--uid";
  }
  if (!uidGiven)
    fail(ErrorKind::kInvalidArgument, "--uid is missing; set the user that runs the program");
  if (options.withoutTcp && options.files.empty()) {
    fail(ErrorKind::kInvalidArgument,
         "--landlock-tcp needs files; name them, at the least the program, by --landlock-read");
  }
  if (!gidGiven) options.gid = options.uid;
  for (++i; i < arguments.size(); ++i) options.command.add(kj::str(arguments[i]));
  if (options.command.size() == 0) {
    fail(ErrorKind::kInvalidArgument,
         "the program is missing; usage: confine OPTIONS -- PROGRAM ARGUMENTS");
  }
  options.command[0] = absolute("the program", options.command[0]);
  return options;
}

}  // namespace talos::confine
