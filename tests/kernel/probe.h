// What a confined program tries that it must not be able to do: this very program, started by the
// exec wrapper under the name /probe.
#pragma once

namespace talos {

// The socket that it reports on: lines NAME=ERRNO, then it waits for the end of what it reads.
constexpr int kProbeFd = 3;

int tryEverything();

}  // namespace talos
