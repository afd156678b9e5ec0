// The shell of an image that pods of the conformance tests run: busybox, as in upstream's image,
// and bash where the environment has a variable whose name is none of a shell's (data-1), which
// Debian's busybox does not pass on and upstream's does.
#include <ctype.h>
#include <unistd.h>

extern char** environ;

static int isName(const char* text) {
  if (!isalpha((unsigned char)*text) && *text != '_') return 0;
  while (isalnum((unsigned char)*text) || *text == '_') ++text;
  return *text == '=';
}

int main(int count, char** arguments) {
  (void)count;
  for (char** each = environ; *each; ++each) {
    if (!isName(*each)) execv("/usr/bin/bash", arguments);
  }
  execv("/usr/bin/ash", arguments);
  return 127;
}
