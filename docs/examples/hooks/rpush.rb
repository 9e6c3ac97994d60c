# config/initializers/pushsweep.rb. rpush keeps one block for each reflection: where you have one for
# notification_failed, call PushsweepHook.report there and leave out the last line.
module PushsweepHook
  APPS = { "chat" => "chat" }.freeze # rpush's name of an app, and Pushsweep's

  # Reports a notification that APNs refused. The time when it was made counts, because rpush keeps no other.
  def self.report(notification)
    status, reason, app = notification.error_code.to_i, notification.error_description, notification.app
    return unless app.class.name.include?("::Apn") && app.environment == "production" && APPS.key?(app.name)
    return unless status >= 400 # APNs gave no answer, or its older interface one of its own numbers
    time = notification.created_at.strftime("%s%L").to_i
    row = [APPS[app.name], notification.device_token, status, reason&.slice(0, 64), time]
    ActiveRecord::Base.connection_pool.with_connection do |connection|
      connection.execute(ActiveRecord::Base.sanitize_sql_array([<<~SQL, *row]))
        INSERT INTO pushsweep_evidence (app, device_token, status, reason, timestamp_ms) VALUES (?, ?, ?, ?, ?)
      SQL
    end
  rescue StandardError => error
    Rpush.logger.error(error) # the sending goes on
  end
end

Rpush.reflect { |on| on.notification_failed { |notification| PushsweepHook.report(notification) } }
