// The container that holds a pod's namespaces: waits, reaps, and ends when asked.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void down(int signal) {
  (void)signal;
  _exit(0);
}

static void reap(int signal) {
  (void)signal;
  while (waitpid(-1, 0, WNOHANG) > 0) {
  }
}

int main(void) {
  struct sigaction ends = {.sa_handler = down};
  struct sigaction reaps = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
  sigaction(SIGINT, &ends, 0);
  sigaction(SIGTERM, &ends, 0);
  sigaction(SIGCHLD, &reaps, 0);
  for (;;) pause();
}
