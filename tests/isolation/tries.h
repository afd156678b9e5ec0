// Attempts of a process in a node's container to see or to change its host, with their outcomes.
// The tries run as process 1 of a container; their targets come from outside, as environment
// variables.
#pragma once

#include <string>
#include <vector>

namespace talos::isolation {

// Kernel arguments of the container, as its launcher passes them.
inline const std::string kArguments = "talos.slot=A";

// The outcome of a try.
enum class Outcome {
  kRefused,   // the kernel refuses it
  kNotThere,  // its target is not in the container
  kOwn,       // it works, on an object of the container itself
  kPossible,  // it works on the host: weaker than in a virtual machine
};
std::string nameOf(Outcome outcome);

// The targets on the host; each is the value of the environment variable of its name.
struct HostFacts {
  std::string disk;     // HOST_DISK, major:minor of a block device of the host
  std::string file;     // HOST_FILE, a path of the host
  std::string process;  // HOST_PROCESS, a pid
  std::string port;     // HOST_PORT, where it listens on 127.0.0.1
  std::string socket;   // HOST_SOCKET, its socket's abstract name
  std::string memory;   // HOST_MEMORY, key of a System V shared memory
  std::string key;      // HOST_KEY, in the keyring of root
  std::string bootId;   // HOST_BOOT_ID

  std::vector<std::string> environment() const;
  static HostFacts fromEnvironment();
};

// Other outcomes, on hosts that are recognised by another fact than the try.
struct Otherwise {
  Outcome outcome;
  const char* where;  // "where the kernel loads no modules"
  bool (*holds)();    // asked on the host
};

struct Try {
  const char* what;
  Outcome expected;
  Outcome (*attempt)(const HostFacts& host);
  std::vector<Otherwise> otherwise = {};

  // Returns the outcome on this host; called outside of the container.
  Outcome here() const;
  // Returns the outcome as the documents print it: "refused; not there where the kernel loads no
  // modules".
  std::string documented() const;
};
const std::vector<Try>& tries();

}  // namespace talos::isolation
