// One request from the brain on a socket, messages about the progress, one answer, and the end.
#pragma once

namespace talos::install {

// Returns the exit status.
int serve(int socket);

}  // namespace talos::install
