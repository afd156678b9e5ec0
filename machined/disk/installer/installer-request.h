// Serves one request of the brain on a socket: progress messages, one answer, then the end.
#pragma once

namespace talos::install {

// Returns the exit status.
int serve(int socket);

}  // namespace talos::install
