// The process of a service as the supervisor sees it: the request to process 1 that starts it, one
// health check, and the words for its exit.
#pragma once

#include "machined/services/supervisor.h"

namespace talos::machined {

using Environment = kj::Array<kj::String>;

// `environment` is what the process gets in the end; `output` is the caller's.
Process1::SpawnRequest spawnRequest(const ServiceDefinition& definition, Environment environment,
                                    int output);

// Asks once, with the check's own timeout. None: it is well; otherwise what is wrong. Never
// rejects.
kj::Promise<kj::Maybe<kj::String>> checkOnce(HealthCheck& health, kj::Timer& timer);

// Of a status of waitpid(2): "exited with status 1", "killed by signal 9 (Killed)". `outOfMemory`:
// the kernel has killed it for memory; the limit that it had, 0 for none: "killed: out of memory".
kj::String describeExit(int status, kj::Maybe<uint64_t> outOfMemory = nullptr);

// The count of oom_kill in a cgroup's memory.events; 0 without it.
uint64_t memoryKillsOf(kj::StringPtr events);
// That of a cgroup below /sys/fs/cgroup, of either version; 0 when there is nobody to count.
uint64_t memoryKillsIn(kj::StringPtr cgroups, kj::StringPtr cgroup);

}  // namespace talos::machined
