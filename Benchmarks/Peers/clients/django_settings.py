"""The settings of the smallest Django project with django-push-notifications."""

import os

SECRET_KEY = "peers"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "push_notifications"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
PUSH_NOTIFICATIONS_SETTINGS = {"APNS_TOPIC": "com.example.chat", "UNIQUE_REG_ID": True}
DATABASES = {"default": {
    "ENGINE": "django.db.backends.mysql", "NAME": os.environ["PEER_DATABASE"], "USER": os.environ["PEER_USER"],
    "PASSWORD": os.environ["PEER_PASSWORD"], "OPTIONS": {"unix_socket": os.environ["PEER_SOCKET"]}}}
